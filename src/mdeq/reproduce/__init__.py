"""The tables and figures of the paper, each by one call."""

from mdeq.reproduce.outcome import Claim, Outcome, page
from mdeq.reproduce.paper import TABLES
from mdeq.reproduce.registry import REPRODUCTIONS, reproduce
from mdeq.reproduce.setting import Setting

__all__ = ["REPRODUCTIONS", "TABLES", "Claim", "Outcome", "Setting", "page", "reproduce"]
