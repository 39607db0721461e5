"""Appendix: street scenes as the shipped weights see them, beside the truth."""

from typing import Any

import torch
from matplotlib.figure import Figure

from mdeq.data import IGNORED
from mdeq.engine import open_bundle
from mdeq.engine.pictures import overlay, patches, spread
from mdeq.reproduce.images import street_folder
from mdeq.reproduce.outcome import Outcome
from mdeq.reproduce.setting import Setting

FRAMES = 4


def measure(setting: Setting) -> Outcome:
    """Segment frames that are spread over the val drive, or the street that ships."""
    bundle = open_bundle("camvid")
    model = bundle.model.to(setting.device).eval()
    examples = bundle.parts[0].examples("val", street_folder(setting))
    pixels, rows = [], []
    for index in setting.each(spread(len(examples), FRAMES), "qualitative"):
        sample: Any = examples[0, index]
        image, truth = sample["image"], sample["segmentation"]
        images = examples.source.normalise(image[None].to(setting.device), torch.float32)
        with torch.no_grad():
            mask = model(images)[0].argmax(dim=0).cpu()
        right = 100 * (mask == truth)[truth != IGNORED].float().mean().item()
        title = f"frame {index + 1} of {len(examples)}"
        rows.append([title, f"{right:.1f}"])
        pixels.append((f"{title}: {right:.1f} % of pixels right", image / 255, mask, truth))
    where = "the street that ships" if setting.camvid is None else "frames of the val split"
    return Outcome(
        title="Street scenes, segmented (appendix)",
        caption=f"The weights that ship as camvid, on {where}: CamVid, 480x360, in place of the "
        "paper's Cityscapes. It is part of a drive whose other parts were trained on.",
        columns=["", "pixels right, %"],
        rows=rows,
        figures={row[0]: float(row[1]) for row in rows},
        pixels=(pixels, bundle.classes["segmentation"], bundle.colours),
    )


def draw(outcome: Outcome) -> Figure:
    """A row for every frame: the picture, what was predicted, the truth."""
    frames, names, colours = outcome.pixels
    figure = Figure(figsize=(12, 1 + 3 * len(frames)), layout="constrained")
    for row, frame in zip(figure.subplots(len(frames), 3, squeeze=False), frames, strict=True):
        title, image, mask, truth = frame
        row[0].imshow(image.permute(1, 2, 0).numpy())
        row[0].set_title(title, fontsize=10)
        for axes, what, classes in zip(row[1:], ("predicted", "truth"), (mask, truth), strict=True):
            axes.imshow(overlay(image, classes, colours))
            axes.set_title(what, fontsize=10)
        for axes in row:
            axes.set_axis_off()
    handles = patches(names, colours, [*range(len(names)), IGNORED])
    figure.legend(handles=handles, loc="outside upper center", ncols=6, frameon=False)
    return figure
