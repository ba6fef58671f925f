"""Serve any Python target over JSON lines, where the judge is not installed: needs NumPy alone.

    python harness.py my_kernel.py < bundle.jsonl > results.jsonl      # then, elsewhere: mxspec check results.jsonl
    mxspec check 'cmd:/path/to/other/python harness.py my_kernel.py'   # another environment, container or machine (ssh)

The target is the file that `mxspec check my_kernel.py` takes. What it prints goes to stderr.

SPDX-License-Identifier: Apache-2.0
"""

import base64
import importlib.util
import inspect
import json
import os
import sys
import traceback
from pathlib import Path
from types import SimpleNamespace

import numpy as np

#: Function -> positional arguments and outputs; NAMES are text, `shape` is a list of sizes, all others are arrays.
FUNCTIONS = {
    "quantize": (("x", "format"), ("codes", "scales")),
    "quantize_fused": (("x", "function", "format"), ("codes", "scales")),
    "dequantize": (("codes", "scales", "format"), ("values",)),
    "quantize_affine": (("x", "affine"), ("codes", "scales", "offsets")),
    "dequantize_affine": (("codes", "scales", "offsets", "affine"), ("values",)),
    "encode": (("x", "element"), ("codes",)),
    "decode": (("codes", "element"), ("values",)),
    "encode_stochastic": (("x", "element", "random_bits"), ("codes",)),
    "tensor_scale": (("x", "format"), ("scale",)),
    "prune": (("codes", "format"), ("codes",)),
    "compress": (("codes", "format"), ("kept", "metadata")),
    "decompress": (("kept", "metadata", "format", "shape"), ("codes",)),
    "pack": (("codes", "layout"), ("data",)),
    "unpack": (("data", "layout", "shape"), ("codes",)),
    "swizzle": (("scales", "layout"), ("data",)),
    "unswizzle": (("data", "layout", "shape"), ("scales",)),
    "pack_blocks": (("codes", "scales", "layout"), ("data",)),
    "unpack_blocks": (("data", "layout", "shape"), ("codes", "scales")),
    "matmul": (("a", "b", "out_dtype"), ("values",)),
    "grouped_matmul": (("a", "b", "groups", "form", "out_dtype"), ("values",)),
    "append_cache": (("k", "v", "slots", "k_cache", "v_cache", "cache"), ("k_cache", "v_cache")),
    "read_cache": (("k_cache", "v_cache", "page_table", "lengths", "cache"), ("k", "v")),
    "attention": (("q", "k", "v", "starts", "lengths", "attention", "out_dtype"), ("values",)),
}
OPTIONS = {
    "quantize": ("tensor_scale", "axis", "pad", "block", "random_bits", "seed", "scales"),
    "quantize_fused": ("up", "residual", "weight", "eps", "tensor_scale"),
    "dequantize": ("tensor_scale",),
    "encode": ("rounding", "overflow"),
    "matmul": ("alpha", "beta", "c", "bias"),
    "grouped_matmul": ("alpha", "bias"),
    "append_cache": ("k_scale", "v_scale"),
    "read_cache": ("k_scale", "v_scale"),
    "attention": ("page_table", "causal", "window", "scale", "q_scale", "k_scale", "v_scale"),
}
NAMES = ("format", "element", "layout", "affine")
#: Functions whose outputs have dtypes of their own.
TYPED = ("quantize_affine", "append_cache", "read_cache")
SPARSE = ("prune", "compress", "decompress")
#: Functions that a target offers by a list.
LISTED = {"append_cache": "CACHES", "read_cache": "CACHES", "attention": "ATTENTION"}


def load(path):
    spec = importlib.util.spec_from_file_location("target", path)
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(Path(path).resolve().parent))
    spec.loader.exec_module(module)
    return module


def listed(value):
    return [value] if isinstance(value, str) else list(value)


def describe(module):
    functions, one_level, stochastic = {}, True, bool(getattr(module, "STOCHASTIC", False))
    sparse = listed(getattr(module, "SPARSE_FORMATS", []))
    for name in FUNCTIONS:
        offered = (sparse or name not in SPARSE) and hasattr(module, LISTED.get(name, name))
        if offered and callable(getattr(module, name, None)):
            parameters = inspect.signature(getattr(module, name)).parameters
            functions[name] = [o for o in OPTIONS.get(name, ()) if o in parameters]
            if name == "quantize" and "tensor_scale" in parameters:
                one_level = parameters["tensor_scale"].default is not inspect.Parameter.empty
            if name == "quantize":
                asked = [parameters[o] for o in ("random_bits", "seed") if o in parameters]
                stochastic |= any(p.default is inspect.Parameter.empty for p in asked)
    given = {
        "functions": functions,
        "formats": listed(getattr(module, "FORMATS", [])),
        "elements": listed(getattr(module, "ELEMENTS", [])),
        "dtypes": listed(getattr(module, "DTYPES", ["float32"])),
        "layouts": listed(getattr(module, "LAYOUTS", [])),
        "tensor_scale": getattr(module, "TENSOR_SCALE", "decode"),
        **({"scales": module.SCALES} if hasattr(module, "SCALES") else {}),
        "one_level": one_level,
        "sr_bits": getattr(module, "SR_BITS", 32),
        "sr_rule": getattr(module, "SR_RULE", "carry"),
        "stochastic": stochastic,
        "profile": getattr(module, "PROFILE", None),
    }
    given |= {"products": products_of(module.OPERANDS)} if "matmul" in functions else {}
    given |= {"grouped": products_of(module.GROUPED)} if "grouped_matmul" in functions else {}
    if "products" in given or "grouped" in given:
        given["out_dtypes"] = listed(getattr(module, "OUT_DTYPES", ["float32"]))
        given["accumulator"] = getattr(module, "ACCUMULATOR", "")
        given["contract"] = getattr(module, "CONTRACT", "")
        given["product_shapes"] = dict(getattr(module, "PRODUCT_SHAPES", {}))
    for key in ("affine", "affine_profile", "affine_contract"):
        if hasattr(module, key.upper()):
            given[key] = listed(getattr(module, key.upper())) if key == "affine" else getattr(module, key.upper())
    given |= {"shapes": dict(module.SHAPES)} if hasattr(module, "SHAPES") else {}
    given |= {"sparse_formats": sparse} if sparse else {}
    given |= {"sparse_layout": list(module.SPARSE_LAYOUT)} if hasattr(module, "SPARSE_LAYOUT") else {}
    given |= {"fused": listed(module.FUSED), "fused_contract": getattr(module, "FUSED_CONTRACT", "")} if hasattr(module, "FUSED") else {}
    given |= {"prune_rule": module.PRUNE_RULE} if hasattr(module, "PRUNE_RULE") else {}
    for key in ("caches", "attention"):
        if hasattr(module, key.upper()):
            given |= {key: listed(getattr(module, key.upper())), "out_dtypes": listed(getattr(module, "OUT_DTYPES", ["float32"]))}
    layout = listed(getattr(module, "LAYOUT", []))
    codes = "nibble-low" if "nibble-low" in layout else "unpacked"
    given["layout"] = [codes, "128x4" if "128x4" in layout else "row-major"]
    name, version = getattr(module, "NAME", "target"), str(getattr(module, "VERSION", "unknown"))
    return {"mxspec": 1, "name": name, "version": version, "language": "Python", "capabilities": given}


def products_of(declared):
    """OPERANDS or GROUPED: one product or several, each {"a": ..., "b": ...}, grouped with "form", or "A @ B", or "A @ B : FORM"."""
    several = [declared] if isinstance(declared, (str, dict)) else list(declared)
    return [p if isinstance(p, str) else p["a"] + " @ " + p["b"] + (" : " + p["form"] if "form" in p else "") for p in several]


def side_of(name, given):
    """One side of a product: an array, or an object with codes, scales, tensor_scale, format, shape and what else it has."""
    spec, (*experts, m, n, k) = given[name + "_spec"], given["shape"]
    parts = {part: given.get(f"{name}_{part}") for part in ("values", "codes", "scales", "tensor_scale", "metadata")}
    if parts["values"] is not None and parts["metadata"] is None:
        return parts["values"]
    kind, offsets = spec.split("/")[0], given.get(f"{name}_offsets")
    parts |= {"biases": None, "zeros": None} | {"zeros" if "-zero-" in kind else "biases": offsets}
    stack = experts if name == "b" or given.get("form") == "masked" else []
    return SimpleNamespace(**parts, format=kind, spec=spec, shape=(*stack, m if name == "a" else n, k))


def dtype_of(name):
    if name == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(name).newbyteorder("<")


def read(name, value):
    """An argument: arrays and float32 from their bytes, all else as it is."""
    if name in ("shape", "block"):
        return tuple(value)
    if name == "groups":
        return np.array(value, np.int32)
    if not isinstance(value, dict):
        return value
    if "float32" in value:
        return float(np.frombuffer(bytes.fromhex(value["float32"]), ">f4")[0])
    data = bytes.fromhex(value["hex"]) if "hex" in value else base64.b64decode(value["base64"])
    return np.frombuffer(bytearray(data), dtype_of(value["dtype"])).reshape(value["shape"])


#: Words of codes, by the dtypes that they may have.
WORDS = {"uint32": "uint32", "int32": "uint32"}


def write(name, value, typed=False, dtype=None):
    """An output, as an array of the type that its name has."""
    if isinstance(value, (bytes, bytearray)):
        value = np.frombuffer(value, np.uint8)
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    elif hasattr(value, "get") and not isinstance(value, np.ndarray):
        value = value.get()  # CuPy
    array = np.asarray(value)
    kind = "uint8"
    if name in ("values", "scale"):
        kind = dtype or "float32"
        array = np.atleast_1d(array.astype(dtype_of(kind)))
    elif typed or array.dtype == np.float32:  # float32 scales
        array = array.astype(np.uint8 if array.dtype.name not in WORDS and array.dtype.kind in "iu" else array.dtype)
        data = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode("ascii")
        return {"dtype": WORDS.get(array.dtype.name, array.dtype.name), "shape": list(array.shape), "base64": data}
    else:
        array = np.ascontiguousarray(array).view(np.uint8)
    data = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode("ascii")
    return {"dtype": kind, "shape": list(array.shape), "base64": data}


def answer(module, request):
    positional, outputs = FUNCTIONS[request["function"]]
    given = {name: read(name, value) for name, value in request["arguments"].items()}
    if "a" in positional:
        sides = {name: side_of(name, given) for name in ("a", "b")}
        given = {k: v for k, v in given.items() if k in (*positional, *OPTIONS[request["function"]])} | sides
    options = {name: value for name, value in given.items() if name not in positional}
    try:
        result = getattr(module, request["function"])(*(given[name] for name in positional), **options)
    except (NotImplementedError, AttributeError) as error:
        return {"id": request["id"], "skipped": {"reason": str(error) or "not implemented"}}
    except Exception as error:
        message = f"{type(error).__name__}: {error}"[:200]
        return {"id": request["id"], "error": {"message": message, "detail": traceback.format_exc()[-2000:]}}
    results = result if len(outputs) > 1 else (result,)
    return {
        "id": request["id"],
        "outputs": {
            name: write(name, value, typed=request["function"] in TYPED, dtype=given.get("out_dtype"))
            for name, value in zip(outputs, results, strict=True)
        },
    }


def main():
    replies = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)  # what the target prints is no reply
    np.seterr(all="ignore")
    module = load(sys.argv[1])
    for line in sys.stdin:
        request = json.loads(line)
        if request["cmd"] == "stop":
            break
        reply = describe(module) if request["cmd"] == "start" else answer(module, request)
        replies.write(json.dumps(reply) + "\n")
        replies.flush()


if __name__ == "__main__":
    main()
