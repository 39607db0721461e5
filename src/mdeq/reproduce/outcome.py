"""What a reproduction found, for people to read and for programs to use."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from mdeq.engine.checkpoint import write_atomically


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a reproduction found.

    Attributes:
        title: What it shows, and where that is in the paper.
        scale: What it was measured on: the caption.
        columns: Titles of the table.
        rows: Of the table, as they are printed.
        figures: The same as numbers.
    """

    title: str
    scale: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    figures: Mapping[str, Any] = field(default_factory=dict)

    def text(self) -> str:
        """Title, caption and table."""
        return f"{self.title}\n{self.scale}\n\n{_table(self.columns, self.rows)}"

    def save(self, file: Path, picture: Figure) -> None:
        """Write the figures as `file`, JSON, and the picture beside it."""
        write_atomically(file, (json.dumps(asdict(self), indent=2) + "\n").encode())
        picture.savefig(file.with_suffix(".png"), dpi=150)


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, cells)) for cells in zip(columns, *rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in (columns, ["-" * width for width in widths], *rows)
    )
