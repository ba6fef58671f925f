"""OpenVINO: Convert to and from FP8 on a CPU."""

from functools import cache
from importlib.metadata import version

import numpy as np
import openvino
from openvino import opset13

NAME, VERSION = "openvino-convert", version("openvino")
TYPES = {"e4m3": openvino.Type.f8e4m3, "e5m2": openvino.Type.f8e5m2, "e8m0": openvino.Type.f8e8m0}
ELEMENTS = list(TYPES)


@cache
def compile_cast(source, destination):
    given = opset13.parameter([-1], source)
    return openvino.compile_model(openvino.Model([opset13.convert(given, destination)], [given]), "CPU")


def convert(data, source, destination):
    request = compile_cast(source, destination).create_infer_request()  # one for a call: several threads may call
    return np.array(request.infer(data)[0])


def encode(x, element):
    return convert(np.ascontiguousarray(x), openvino.Type.f32, TYPES[element]).view(np.uint8)


def decode(codes, element):
    if codes.dtype != np.uint8:
        raise TypeError(f"codes are uint8, not {codes.dtype}")
    return convert(openvino.Tensor(np.array(codes), openvino.Shape(codes.shape), TYPES[element]), TYPES[element], openvino.Type.f32)
