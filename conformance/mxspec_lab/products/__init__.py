"""Kernels of matrix products, right ones and wrong ones: what the judge of products is measured by."""
