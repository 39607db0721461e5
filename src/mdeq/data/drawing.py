"""One image of the shapes dataset: drawn from random numbers.

A coloured shape lies, turned, on a textured ground, partly covered, under noise. The label of
the image is the kind of shape; the mask says which pixels show it. Colours and textures say
nothing about the kind, and no few pixels do: it takes the outline as a whole.
"""

from math import cos, pi, sin

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
    ground, colour, cover_colour = _colours(rng)

    radius = float(rng.uniform(0.34, 0.46)) * size
    centre_x, centre_y = rng.uniform(radius, size - 1 - radius, 2).tolist()
    u, v = _turned(x - centre_x, y - centre_y, rng.uniform(0, 2 * pi))
    shape = _inside(kind, u / radius, v / radius)

    towards = rng.uniform(0, 2 * pi)
    distance = float(rng.uniform(0.6, 1.1)) * radius
    patch_x, patch_y = centre_x + distance * cos(towards), centre_y + distance * sin(towards)
    u, v = _turned(x - patch_x, y - patch_y, rng.uniform(0, 2 * pi))
    cover = np.maximum(np.abs(u), np.abs(v)) < rng.uniform(0.25, 0.35) * radius

    image = np.where(shape[..., None], colour, ground)
    image = image + 0.08 * _texture(x, y, size, rng)[..., None]
    image = np.where(cover[..., None], cover_colour, image)
    image = image + 0.04 * rng.standard_normal(image.shape, np.float32)
    mask = np.where(shape & ~cover, 1 + kind, 0)
    return image.clip(0, 1), kind, mask


def _inside(kind: int, u: Array, v: Array) -> Points:
    """Which points lie in the shape, measured from its centre in radii."""
    distance = np.hypot(u, v)
    near, far = np.minimum(np.abs(u), np.abs(v)), np.maximum(np.abs(u), np.abs(v))
    if KINDS[kind] == "circle":
        return np.asarray(distance < 0.85)
    if KINDS[kind] == "square":
        return np.asarray(far < 0.78)
    if KINDS[kind] == "triangle":
        sides = [_turned(u, v, turn)[0] for turn in (0, 2 * pi / 3, 4 * pi / 3)]
        return np.asarray(np.maximum.reduce(sides) < 0.55)
    if KINDS[kind] == "cross":
        return np.asarray((near < 0.3) & (far < 1))
    return np.asarray((distance < 1) & (distance > 0.5))


def _turned(x: Array, y: Array, angle: float) -> tuple[Array, Array]:
    """Coordinates along axes that are turned by an angle."""
    return cos(angle) * x + sin(angle) * y, cos(angle) * y - sin(angle) * x


def _colours(rng: np.random.Generator) -> Array:
    """Of ground, shape and what covers it; the first two are far enough apart to be seen."""
    while True:
        colours = rng.uniform(0.1, 0.9, (3, 3)).astype(np.float32)
        if np.abs(colours[0] - colours[1]).sum() > 1.0:
            return colours


def _texture(x: Array, y: Array, size: int, rng: np.random.Generator) -> Array:
    """Two waves across each other, of random direction, length and phase, in -1..1."""
    texture = np.ones((), np.float32)
    for _ in range(2):
        u, _v = _turned(x, y, rng.uniform(0, pi))
        pitch = 2 * pi / (size * rng.uniform(0.1, 0.4))
        texture = texture * np.sin(float(pitch) * u + float(rng.uniform(0, 2 * pi)))
    return texture
