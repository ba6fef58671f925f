"""ggml's own program `test-quantize-fns`: a test for `mxspec score-tests`. Linux.

GGML_TEST is the program, as ggml's build makes it. The functions that it looks up for MXFP4 or NVFP4 are replaced while it runs, by
ggml_traits.c beside this file; ggml's reference and its dot product stay, and other types are skipped.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from mxspec.formats import get_block

#: ggml's numbers of the types; the codes that share a byte lie half a block apart.
_TYPES = {"mxfp4": 39, "nvfp4": 40}
#: Blocks of the format in one struct of ggml: their scales first, then their codes.
_GROUP = {"mxfp4": 1, "nvfp4": 4}
#: ggml has no tensor scale: one that changes nothing, by what a rule is handed over.
_NEUTRAL = {"amax": 2688.0, "encode": 1.0}


@lru_cache(maxsize=1)
def build_shim() -> str:
    """The library that is put in front of ggml's. Raises CalledProcessError."""
    folder = tempfile.mkdtemp(prefix="mxspec-ggml-")
    library = str(Path(folder) / "traits.so")
    subprocess.run(
        ["cc", "-std=c99", "-O1", "-shared", "-fPIC", str(Path(__file__).with_name("ggml_traits.c")), "-o", library, "-ldl"], check=True
    )
    return library


if "GGML_TEST" in os.environ:
    build_shim()  # once, before the worker starts a copy of itself for each implementation


def pack(codes: Any, scales: Any, fmt: str) -> bytes:
    """Codes [n, k] and scales [n] as ggml's structs."""
    half = codes.shape[1] // 2
    nibbles = codes[:, :half] | codes[:, half:] << 4
    rows = [a.reshape(len(codes) // _GROUP[fmt], -1) for a in (scales, nibbles)]
    return np.concatenate(rows, axis=1).astype(np.uint8).tobytes()


def unpack(data: bytes, fmt: str) -> tuple[Any, Any]:
    """The codes [n, k] and scales [n, 1] of ggml's structs."""
    group, half = _GROUP[fmt], get_block(fmt).k // 2
    structs = np.frombuffer(data, np.uint8).reshape(-1, group * (1 + half))
    nibbles = structs[:, group:].reshape(-1, half)
    return np.concatenate([nibbles & 15, nibbles >> 4], axis=1), structs[:, :group].reshape(-1, 1)


def _answer(impl: Any, what: int, data: bytes, options: dict[str, float]) -> bytes:
    if what == 0:
        codes, scales = impl.quantize(np.frombuffer(data, np.float32)[None].copy(), **options)
        return pack(codes.reshape(-1, get_block(impl.fmt).k), scales.reshape(-1), impl.fmt)
    codes, scales = unpack(data, impl.fmt)
    return bytes(np.asarray(impl.dequantize(codes, scales, **options), np.float32).tobytes())


def _read(file: BinaryIO, count: int) -> bytes:
    data = file.read(count)
    return data if len(data) == count else b""


def quantize_fns(impl: Any) -> None:
    """The program must end with 0, with the implementation in the place of ggml's."""
    options = {"tensor_scale": _NEUTRAL.get(impl.TENSOR_SCALE, 1.0)} if impl.fmt == "nvfp4" else {}
    ask, answer = os.pipe(), os.pipe()
    environment = os.environ | {
        "LD_PRELOAD": build_shim(),
        "MX_TYPE": str(_TYPES[impl.fmt]),
        "MX_ASK": str(ask[1]),
        "MX_ANSWER": str(answer[0]),
    }
    with os.fdopen(ask[0], "rb") as questions, os.fdopen(answer[1], "wb") as answers:
        program = subprocess.Popen(
            [os.environ["GGML_TEST"]], env=environment, pass_fds=(ask[1], answer[0]), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        os.close(ask[1])
        os.close(answer[0])
        try:
            while head := _read(questions, 24):
                what, given, wanted = np.frombuffer(head, np.int64).tolist()
                made = _answer(impl, what, _read(questions, given), options)
                assert len(made) == wanted, f"{len(made)} bytes instead of {wanted}"
                answers.write(made)
                answers.flush()
            said = program.communicate()[0]
        finally:
            program.kill()
            program.wait()
    assert program.returncode == 0, f"exit code {program.returncode}: {said.strip()[-300:]}"
