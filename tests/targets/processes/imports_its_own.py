"""Its kernel is a module beside it."""

import kernel_of_its_own

FORMATS = ["mxfp4"]


def quantize(x, fmt):
    return kernel_of_its_own.run(x, fmt)
