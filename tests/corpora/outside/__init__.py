"""Kernels written against the judge by someone who knew the interface of targets alone: wrong ones, and right ones of unusual form."""

from tests.corpora.outside import others, packing, quantizing, unusual
from tests.corpora.outside.entry import KERNELS, Kernel

__all__ = ["KERNELS", "Kernel", "others", "packing", "quantizing", "unusual"]
