"""Shapes: images that are drawn when they are asked for. No files, no download.

One coloured shape lies, turned, on a textured ground, partly covered, under noise. The
label of the image is the kind of shape; the mask says which pixels show it. Colours and
textures say nothing about the kind, and no few pixels do: it takes the outline as a whole.
"""

import numpy as np
import numpy.typing as npt

KINDS = ("circle", "square", "triangle", "cross", "ring")

Array = npt.NDArray[np.float32]
Points = npt.NDArray[np.bool_]


def draw(size: int, rng: np.random.Generator) -> tuple[Array, int, npt.NDArray[np.int64]]:
    """One image (size, size, 3) in 0..1, the kind of its shape, and the mask (size, size).

    A mask pixel is 0 for the ground and for what covers the shape, 1 + kind for the shape.
    """
    axis = np.arange(size, dtype=np.float32)
    x, y = axis[None, :], axis[:, None]
    kind = int(rng.integers(len(KINDS)))
    ground, colour = _two_colours(rng)

    image = ground + 0.1 * _texture(x, y, size, rng)[..., None]
    radius = rng.uniform(0.28, 0.42) * size
    centre = rng.uniform(radius, size - 1 - radius, 2).astype(np.float32)
    shape = _inside(kind, x - centre[0], y - centre[1], radius, rng.uniform(0, 2 * np.pi))
    image = np.where(shape[..., None], colour + 0.06 * _texture(x, y, size, rng)[..., None], image)

    cover = _patch(x, y, centre, radius, rng)
    image = np.where(cover[..., None], rng.uniform(0, 1, 3), image)
    image = image + 0.05 * rng.standard_normal(image.shape)

    mask = np.where(shape & ~cover, 1 + kind, 0).astype(np.int64)
    return np.clip(image, 0, 1).astype(np.float32), kind, mask


def _inside(kind: int, x: Array, y: Array, radius: float, angle: float) -> Points:
    """Which points, measured from the centre, lie in the shape."""
    u = (np.cos(angle) * x + np.sin(angle) * y) / radius
    v = (np.cos(angle) * y - np.sin(angle) * x) / radius
    distance = np.hypot(u, v)
    near, far = np.minimum(np.abs(u), np.abs(v)), np.maximum(np.abs(u), np.abs(v))
    if KINDS[kind] == "circle":
        inside = distance < 0.85
    elif KINDS[kind] == "square":
        inside = far < 0.78
    elif KINDS[kind] == "triangle":
        turns = (0, 2 * np.pi / 3, 4 * np.pi / 3)
        inside = np.maximum.reduce([np.cos(a) * u + np.sin(a) * v for a in turns]) < 0.55
    elif KINDS[kind] == "cross":
        inside = (near < 0.3) & (far < 1)
    else:
        inside = (distance < 1) & (distance > 0.5)
    return np.asarray(inside)


def _two_colours(rng: np.random.Generator) -> tuple[Array, Array]:
    """Colours of ground and shape, far enough apart to be seen."""
    while True:
        ground, colour = rng.uniform(0.1, 0.9, (2, 3)).astype(np.float32)
        if np.abs(ground - colour).sum() > 0.9:
            return ground, colour


def _texture(x: Array, y: Array, size: int, rng: np.random.Generator) -> Array:
    """Two waves across each other, of random direction and length, in -1..1."""
    angle = rng.uniform(0, np.pi, 2)
    pitch = 2 * np.pi / (size * rng.uniform(0.1, 0.4, 2))
    phase = rng.uniform(0, 2 * np.pi, 2)
    waves = [
        np.sin(pitch[k] * (np.cos(angle[k]) * x + np.sin(angle[k]) * y) + phase[k]) for k in (0, 1)
    ]
    return np.asarray(waves[0] * waves[1], dtype=np.float32)


def _patch(x: Array, y: Array, centre: Array, radius: float, rng: np.random.Generator) -> Points:
    """A turned square that covers some of the rim of the shape."""
    angle, towards = rng.uniform(0, 2 * np.pi, 2)
    distance = rng.uniform(0.6, 1.1) * radius
    x = x - centre[0] - distance * np.cos(towards)
    y = y - centre[1] - distance * np.sin(towards)
    u, v = np.cos(angle) * x + np.sin(angle) * y, np.cos(angle) * y - np.sin(angle) * x
    return np.asarray(np.maximum(np.abs(u), np.abs(v)) < rng.uniform(0.25, 0.4) * radius)
