"""Sizes at which kernels change their way: those of tiles and vectors, and the ones beside."""

#: Rows, columns, or groups along a row.
EDGES = (2, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 127, 128, 129, 255, 256, 257, 511, 513)
