"""Colours, of pixels and of classes."""

Channels = tuple[float, float, float]  # red, green and blue, in 0..1

Colour = tuple[int, int, int]  # the same in bytes
