"""universal-dtypes: the cfloat of the Stillwater Universal library that it names E5M2."""

import numpy as np
import universal_dtypes

NAME, VERSION, ELEMENTS = "universal-dtypes-e5m2", universal_dtypes.__version__, ["e5m2"]


def encode(x, element):
    return x.astype(universal_dtypes.fp8e5m2).view(np.uint8)


def decode(codes, element):
    return codes.view(universal_dtypes.fp8e5m2).astype(np.float32)
