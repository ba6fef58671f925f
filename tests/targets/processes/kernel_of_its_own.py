"""What `imports_its_own` imports."""

import mxspec


def run(x, fmt):
    t = mxspec.quantize(x, fmt)
    return t.codes, t.scales
