"""The layer f of multiscale equilibrium models, and its parts."""

from mdeq.nn.convolution import WeightNormConv2d
from mdeq.nn.dropout import VariationalDropout2d
from mdeq.nn.fusion import Upsampling
from mdeq.nn.nonlinearity import Rectifier
from mdeq.nn.passes import one_pass
from mdeq.nn.transformation import Initialisation, Transformation

__all__ = [
    "Initialisation",
    "Rectifier",
    "Transformation",
    "Upsampling",
    "VariationalDropout2d",
    "WeightNormConv2d",
    "one_pass",
]
