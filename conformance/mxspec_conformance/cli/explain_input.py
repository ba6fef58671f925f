"""Parses blocks and tensor scales from the command line, and reads blocks from files."""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.elements import as_float32
from mxspec.formats import FLOAT32, BlockFormat
from mxspec.profiles.schema import TensorScaleKind
from mxspec.reals import encode_real, make_real
from mxspec.rounding import Overflow
from mxspec.tensorscale import TensorScale
from mxspec_conformance.targets.texts import clean_name
from mxspec_vectors.reading import open_regular

_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,6})?", re.ASCII)
_WORDS = {"nan": FLOAT32.nan_code, "inf": FLOAT32.inf_code, "infinity": FLOAT32.inf_code}


def parse_value(text: str) -> int:
    """The float32 bits of a value: a decimal, 0x and eight hex digits, nan or inf.

    A decimal is rounded once, to nearest even.

    Raises ValueError for anything else, for decimals outside the range of float32, and for the bits of a NaN.
    """
    sign = FLOAT32.sign_bit if text.startswith("-") else 0
    word = _WORDS.get(text.lstrip("+-").lower())
    if word is not None and re.fullmatch(r"[+-]?[A-Za-z]+", text):
        return sign | word
    if text[:2].lower() == "0x":
        return _parse_bits(text)
    if not _DECIMAL.fullmatch(text):
        if text.startswith("--"):
            raise ValueError(f"no such option: {text}; see --help")
        raise ValueError(
            f"{text!r} is not a number; write a decimal, 0x and the eight hex digits of a float32, nan or inf, and spaces between numbers"
        )
    decimal = Decimal(text)
    if decimal and decimal.adjusted() < -60:
        return sign
    if decimal.adjusted() <= 60:
        bits = encode_real(make_real(Fraction(decimal), negative_zero=bool(sign)), FLOAT32, overflow=Overflow.OWN)
        if bits & ~FLOAT32.sign_bit != FLOAT32.inf_code:
            return bits
    raise ValueError(f"{text} is larger than the largest float32, 3.4028235e38; write inf for infinity")


def _parse_bits(text: str) -> int:
    if not re.fullmatch(r"0[xX][0-9a-fA-F]{8}", text):
        raise ValueError(f"{text!r} is not the bits of a float32; write 0x and eight hex digits, such as 0x3f800000")
    bits = int(text, 16)
    if FLOAT32.is_nan(bits):
        raise ValueError(f"{text} is a NaN; write nan or -nan, payloads are not distinguished")
    return bits


def parse_tensor_scale(text: str) -> TensorScale | str:
    """A tensor scale: `auto`, or KIND=NUMBER, a decimal or the bits of a float32.

    Eight hex digits are bits, with 0x or without; a decimal is rounded once to float32, to nearest even.

    Raises ValueError for anything else, and for a negative number: a tensor scale follows from the largest magnitude.
    """
    if text == "auto":
        return text
    kind, _, number = text.partition("=")
    kinds = [k.value for k in TensorScaleKind]
    if kind in kinds and re.fullmatch(r"(0[xX])?[0-9a-fA-F]{8}", number):
        return _check_sign(TensorScale(TensorScaleKind(kind), int(number, 16)), text)
    if kind not in kinds or not _DECIMAL.fullmatch(number):
        raise ValueError(
            f"--tensor-scale {text!r} is neither auto nor KIND=NUMBER with KIND one of {', '.join(kinds)} "
            "and NUMBER a decimal or the eight hex digits of a float32, such as amax=2688 or amax=45280000"
        )
    return _check_sign(TensorScale(TensorScaleKind(kind), parse_value(number)), text)


def _check_sign(scale: TensorScale, text: str) -> TensorScale:
    if scale.bits >> 31:
        raise ValueError(
            f"--tensor-scale {text!r} is negative; it follows from a tensor's largest magnitude: pass a number of at least 0 "
            "(signs are those of the elements)"
        )
    return scale


def block_from_values(values: Sequence[str], fmt: BlockFormat) -> tuple[npt.NDArray[np.float32], list[str]]:
    if len(values) > fmt.k:
        raise ValueError(f"{len(values)} values are too many; a block of {fmt.name} holds {fmt.k}")
    return _pad_block([parse_value(v) for v in values], fmt)


def _pad_block(bits: Sequence[int], fmt: BlockFormat) -> tuple[npt.NDArray[np.float32], list[str]]:
    notes = []
    if len(bits) < fmt.k:
        given = "lane 0 is" if len(bits) == 1 else f"lanes 0–{len(bits) - 1} are"
        last = fmt.k - 1
        rest = f"lane {last} is" if len(bits) == last else f"lanes {len(bits)}–{last} are"
        notes.append(f"{given} given, {rest} padded with zeros")
    padded = np.array([*bits, *[0] * (fmt.k - len(bits))], np.uint32)
    return padded.view(np.float32), notes


#: What a file of numpy's begins with: one array, and several in a ZIP archive.
_NPY, _NPZ = b"\x93NUMPY", b"PK"


def load_arrays(path: Path, kind: str) -> Any:
    """The array of a .npy file, or the open archive of a .npz.

    kind: what the caller takes, for the message. Raises ValueError in words of its own where numpy advises to load objects, which are
    never loaded.
    """
    try:
        with open_regular(path) as file:
            start = file.read(6)
            if not start.startswith((_NPY, _NPZ)):
                what = "is empty" if not start else "is cut short" if _NPY.startswith(start) else "does not begin as files of numpy.save do"
                raise ValueError(f"it {what}")
            file.seek(0)
            loaded = np.load(file, allow_pickle=False)
            return loaded if isinstance(loaded, np.ndarray) else dict(loaded)
    except (ValueError, EOFError, OSError, MemoryError, NotImplementedError, zipfile.BadZipFile, zlib.error) as error:
        words = (
            "it holds Python objects, not numbers; save an array of numbers with numpy.save" if "allow_pickle" in str(error) else str(error)
        )
        raise ValueError(f"{path} is not a readable {kind} file: {words}") from error


def read_rows(path: Path) -> npt.NDArray[np.float32]:
    """The rows of a .npy file, any leading axes flattened."""
    array = load_arrays(path, ".npy")
    if not isinstance(array, np.ndarray):
        raise ValueError(f"{path} contains several arrays; save one of them with numpy.save")
    if array.ndim == 0 or array.size == 0:
        raise ValueError(f"{path} has shape {array.shape}; at least one row of values is required")
    try:
        values = as_float32(array, name=path.name)
    except TypeError as error:
        raise ValueError(str(error)) from error
    return np.ascontiguousarray(values).reshape(-1, array.shape[-1])


def block_from_rows(
    rows: npt.NDArray[np.float32], row: int, block: int, fmt: BlockFormat, name: str
) -> tuple[npt.NDArray[np.float32], list[str]]:
    blocks = -(-rows.shape[1] // fmt.k)
    for what, index, count in (("row", row, rows.shape[0]), ("block", block, blocks)):
        if not 0 <= index < count:
            raise ValueError(f"--{what} {index} is out of range; {name} has {what}s 0 to {count - 1}")
    part = rows[row, block * fmt.k : (block + 1) * fmt.k]
    padded, notes = _pad_block([int(b) for b in part.view(np.uint32)], fmt)
    where = f"{clean_name(name)}, row {row} of {rows.shape[0]}, block {block} of {blocks}"
    return padded, [where, *notes]
