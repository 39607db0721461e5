"""The tables of the paper, beside what was trained here."""

from mdeq.reproduce.outcome import Outcome
from mdeq.reproduce.paper import TABLES
from mdeq.reproduce.tables import draw, look_up

__all__ = ["TABLES", "Outcome", "draw", "look_up"]
