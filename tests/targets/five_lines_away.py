"""The five lines with ties away from zero."""

from dataclasses import replace

import mxspec

NAME, VERSION, FORMATS = "five-lines-away", "1.0", list(mxspec.BLOCKS)


def away(profile):
    element = replace(profile.one_level.element, rounding=mxspec.Rounding.RNA)
    return replace(profile, one_level=replace(profile.one_level, element=element))


def quantize(x, fmt):
    t = mxspec.quantize(x, fmt, profile=away(mxspec.default_profile(fmt)))
    return t.codes, t.scales


def dequantize(codes, scales, fmt):
    return mxspec.dequantize(codes, scales, fmt)


def encode(x, element):
    return mxspec.encode(x, element, rounding="rna")


decode = mxspec.decode
