"""Put what `mdeq reproduce` found into docs/results.md, below its line "made by".

    .venv/bin/python tools/results.py reproduced/quick [reproduced/full]

Of what lies in both folders, the second is taken. Pictures go to docs/images/.
"""

import shutil
import sys
from pathlib import Path

from PIL import Image

from mdeq.reproduce import REPRODUCTIONS, Outcome, page

DOCS = Path(__file__).parent.parent / "docs"
PAGE = DOCS / "results.md"
LINE = "<!-- made by tools/results.py; what follows is not written by hand -->"
LARGE = 400_000  # bytes of a picture, above which it is kept as JPEG


def main(folders: list[Path]) -> None:
    """Rewrite the page."""
    written, line, _ = PAGE.read_text().partition(LINE)
    if not line:
        raise SystemExit(f"{PAGE} has no line {LINE}")
    found = {
        name: (folder, outcome) for folder in folders for name in REPRODUCTIONS
        if (outcome := Outcome.read(folder / f"{name}.json")) is not None
    }  # fmt: skip
    if not found:
        raise SystemExit("no outcomes there; expected folders such as reproduced/quick")
    outcomes = {
        _picture(found[name][0], name): found[name][1] for name in REPRODUCTIONS if name in found
    }
    PAGE.write_text(f"{written}{line}\n\n{page(outcomes)}")


def _picture(folder: Path, name: str) -> str:
    """Copy a picture; its address on the page."""
    source = folder / f"{name}.png"
    for suffix in ("png", "jpg"):
        (DOCS / "images" / f"reproduced-{name}.{suffix}").unlink(missing_ok=True)
    if source.stat().st_size < LARGE:
        copy = f"reproduced-{name}.png"
        shutil.copyfile(source, DOCS / "images" / copy)
    else:
        copy = f"reproduced-{name}.jpg"
        Image.open(source).convert("RGB").save(DOCS / "images" / copy, quality=85)
    return f"images/{copy}"


if __name__ == "__main__":
    main([Path(argument) for argument in sys.argv[1:]])
