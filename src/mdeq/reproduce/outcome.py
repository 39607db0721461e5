"""What a reproduction found, for people to read and for programs to use."""

import json
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from matplotlib.figure import Figure

from mdeq.engine.checkpoint import write_atomically


@dataclass(frozen=True, kw_only=True)
class Claim:
    """Something that the paper says, and whether it came out so.

    Attributes:
        text: The claim.
        holds: Whether it held; None where the figures do not decide it.
        seen: The figures.
    """

    text: str
    holds: bool | None
    seen: str

    @property
    def verdict(self) -> str:
        """In words."""
        return {True: "holds", False: "does not hold", None: "undecided"}[self.holds]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a reproduction found.

    Attributes:
        title: What it shows, and where that is in the paper.
        caption: What it was measured on, and at which scale.
        columns: Titles of the table.
        rows: Of the table, as they are printed.
        claims: Of the paper, checked.
        figures: What the picture is drawn from, as numbers.
        pixels: What else it is drawn from, images; they are not written down.
        made: With which code, data and options: what makes two outcomes comparable.
    """

    title: str
    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    claims: Sequence[Claim] = ()
    figures: Mapping[str, Any] = field(default_factory=dict)
    pixels: Any = None
    made: Mapping[str, Any] = field(default_factory=dict)

    def text(self) -> str:
        """Title, caption, table and claims, for a terminal."""
        claims = [f"{claim.verdict}: {claim.text} ({claim.seen})" for claim in self.claims]
        parts = [
            f"{self.title}\n{self.caption}",
            _table(self.columns, self.rows),
            "\n".join(claims),
        ]
        return "\n\n".join(part for part in parts if part)

    def markdown(self, picture: str) -> str:
        """The same for a page, with the picture at an address."""
        lines = [f"### {self.title}", "", f"![{self.title}]({picture})", "", self.caption, ""]
        lines += [*_header(*self.columns), *map(_row, self.rows)]
        if self.claims:
            lines += ["", *_header("the paper says", "here", "seen")]
            lines += [_row([claim.text, claim.verdict, claim.seen]) for claim in self.claims]
        if self.made:
            lines += ["", f"`{self.made['command']}`, {self.made['code']}"]
        return "\n".join(lines) + "\n"

    def save(self, file: Path) -> None:
        """Write it as JSON, but for the pixels."""
        text = json.dumps(asdict(replace(self, pixels=None)), indent=2, allow_nan=False)
        write_atomically(file, (text + "\n").encode())

    @classmethod
    def read(cls, file: Path) -> Self | None:
        """The inverse of `save`; None where there is no such file, or one of another version."""
        try:
            values = json.loads(file.read_text())
            return cls(**{**values, "claims": [Claim(**claim) for claim in values["claims"]]})
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None


def page(outcomes: Mapping[str, Outcome]) -> str:
    """What became of the paper's claims, then every outcome; by the address of its picture."""
    claims = [
        _row([claim.text, claim.verdict, f"[{outcome.title}]({_anchor(outcome.title)})"])
        for outcome in outcomes.values()
        for claim in outcome.claims
    ]
    summary = ["### The paper's claims", "", *_header("the paper says", "here", "measured in")]
    sections = [outcome.markdown(picture) for picture, outcome in outcomes.items()]
    return "\n".join([*([*summary, *claims, ""] if claims else []), *sections])


def save_picture(figure: Figure, caption: str, file: Path) -> None:
    """Write a picture with its caption below it."""
    width = int(figure.get_figwidth() * 15)  # characters of this size
    figure.supxlabel(textwrap.fill(caption, width), x=0.01, ha="left", fontsize=8, color="0.35")
    figure.savefig(file, dpi=150)


def _anchor(heading: str) -> str:
    """The address of a heading on its own page, as GitHub gives it."""
    return "#" + re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def _header(*columns: str) -> list[str]:
    return [_row(columns), _row(["---"] * len(columns))]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, cells)) for cells in zip(columns, *rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in (columns, ["-" * width for width in widths], *rows)
    )
