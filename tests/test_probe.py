"""The probe's tcgen05 part, which no chip here can run: its arithmetic, compiled by g++, and what `attest` makes of its answers.

What is expected is written anew: fields as tables 40 and 42 to 44 of the PTX ISA 9.1 have them (9.7.16.4, shared memory descriptor and
instruction descriptors), the layout as an enumeration of shared memory in the order of its bytes.
"""

from __future__ import annotations

import ctypes
import json
import math
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from click.testing import CliRunner

import mxspec
from mxspec.dot import get_accumulator
from mxspec_lab.attest import attest
from mxspec_lab.probe import RANGES, answer_question, find_path, list_questions, read_name, read_sums, read_unanswered, show_bits

from tests.test_gpu_compile import find_tool

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "gpu" / "probe" / "mxprobe.cu"
PROBE = ROOT / "reports" / "gpu" / "probe-h200.json"

#: C names for what the probe computes without CUDA.
WRAPPERS = """
#include "mxprobe.cu"
extern "C" {
int count_forms() { return sizeof kTcgen05 / sizeof kTcgen05[0]; }
const char* form_name(int f) { return kTcgen05[f].name; }
void form_range(int f, int* out) { const Tcgen05& u = kTcgen05[f]; out[0] = u.k, out[1] = u.low, out[2] = u.high, out[3] = u.above; }
u32 form_power(int f, int e) { return encode_power(kTcgen05[f].number, e); }
u32 form_sign(int f) { return sign_bit(kTcgen05[f].number); }
u32 form_instruction(int f) { return describe_instruction(kTcgen05[f].kind, kTcgen05[f].type); }
u32 form_scales(int f) { return is_scaled(kTcgen05[f].kind) ? scale_word(kTcgen05[f].kind) : 0; }
u64 matrix(u32 address) { return describe_matrix(address); }
void fill(int f, int side, int rows, unsigned char* bytes) {
  const Tcgen05& u = kTcgen05[f];
  for (int row = 0; row < rows; ++row)
    for (int i = 0; i < u.k; ++i)
      put_bits(bytes, find_bit(u.kind, u.number, row, i), u.number.bits, encode_integer(u.number, known_input(side, row, i)));
}
int answer(int row, int column) { return known_answer(row, column); }
int addend(int row, int column, int k) { return known_addend(row, column, k); }
}
"""

#: Field -> lowest bit, width, as the tables list them.
MATRIX_FIELDS = {
    "address": (0, 14),
    "leading": (16, 14),
    "stride": (32, 14),
    "constant": (46, 3),
    "base": (49, 3),
    "absolute": (52, 1),
    "swizzle": (61, 3),
}
PLAIN_FIELDS = {
    "selector": (0, 2), "sparse": (2, 1), "saturate": (3, 1), "d": (4, 2), "a": (7, 3), "b": (10, 3), "negate a": (13, 1), "negate b": (14, 1),
    "transpose a": (15, 1), "transpose b": (16, 1), "n / 8": (17, 6), "m / 16": (24, 5), "shift": (30, 2),
}  # fmt: skip
SCALED_FIELDS = {
    "sparse": (2, 1), "scale b": (4, 2), "a": (7, 3), "b": (10, 3), "negate a": (13, 1), "negate b": (14, 1), "transpose a": (15, 1),
    "transpose b": (16, 1), "n / 8": (17, 6), "ue8m0": (23, 1), "m / 128": (27, 2), "scale a": (29, 2),
}  # fmt: skip
#: mxf4 and mxf4nvf4 differ: B's format has two bits, and a length of k other than 64 the last one.
PACKED_FIELDS = SCALED_FIELDS | {"b": (10, 2), "k is 96": (31, 1)}
#: Kind -> format -> its number in the instruction descriptor.
TYPES = {
    "f16": {"f16": 0, "bf16": 1}, "tf32": {"tf32": 2}, "f8f6f4": {"e4m3": 0, "e5m2": 1, "e2m3": 3, "e3m2": 4, "e2m1": 5},
    "mxf8f6f4": {"e4m3": 0, "e5m2": 1, "e2m3": 3, "e3m2": 4, "e2m1": 5}, "mxf4": {"e2m1": 1}, "mxf4nvf4": {"e2m1": 1},
}  # fmt: skip
WIDTHS = {"tf32": 32, "f16": 16, "bf16": 16, "e4m3": 8, "e5m2": 8, "e2m3": 6, "e3m2": 6, "e2m1": 4}


def split_fields(value: int, fields: dict[str, tuple[int, int]]) -> dict[str, int]:
    """The value of every field that is not 0; no bit is set outside of the fields."""
    assert value & ~sum(((1 << width) - 1) << low for low, width in fields.values()) == 0
    parts = {name: value >> low & ((1 << width) - 1) for name, (low, width) in fields.items()}
    return {name: part for name, part in parts.items() if part}


@dataclass(frozen=True)
class Form:
    """One form of tcgen05.mma as the probe lists it."""

    number: int
    name: str
    k: int
    low: int
    high: int
    above: int

    @property
    def kind(self) -> str:
        return self.name.split(".")[2]

    @property
    def format(self) -> str:
        return self.name.rsplit(".", 1)[1]


def decode(codes: npt.NDArray[np.uint32], fmt: str) -> npt.NDArray[np.float64]:
    """The numbers, by the model's formats or by other libraries' types."""
    if fmt == "tf32":
        return codes.view(np.float32).astype(np.float64)
    if fmt in ("f16", "bf16"):
        dtype = np.float16 if fmt == "f16" else ml_dtypes.bfloat16
        return codes.astype(np.uint16).view(dtype).astype(np.float64)
    return mxspec.decode(codes.astype(np.uint8), fmt).astype(np.float64)


def enumerate_slots(rows: int, k: int, width: int, *, gaps: bool) -> Iterator[tuple[int, int, int]]:
    """(row, element, first bit) in the order of shared memory: K-major, no swizzling, eight rows of 16 bytes and the next 16 bytes of them."""
    each = 16 if gaps else 128 // width
    bit = 0
    for eight in range(rows // 8):
        for chunk in range(k // each):
            for row in range(8):
                for i in range(each):
                    yield eight * 8 + row, chunk * each + i, bit
                    bit += width
                bit += 128 - each * width


def read_matrix(image: bytes, rows: int, form: Form, **other: Any) -> npt.NDArray[np.float64]:
    """What an instruction of this form finds in shared memory; `other`: what one of another mind would."""
    gaps = form.format in ("e2m1", "e2m3", "e3m2") and not form.kind.startswith("mxf4")
    width = WIDTHS[form.format]
    whole = int.from_bytes(image, "little")
    codes = np.zeros((rows, form.k), np.uint32)
    for row, i, bit in enumerate_slots(rows, form.k, width, **{"gaps": gaps, **other}):
        codes[row, i] = whole >> bit & ((1 << width) - 1)
    return decode(codes, form.format)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    compiler = next((c for c in ("g++", "c++", "clang++") if shutil.which(c)), None)
    if compiler is None:
        pytest.skip("no C++ compiler (g++, c++, clang++) here: the probe's arithmetic is not built")
    folder = tmp_path_factory.mktemp("probe")
    (folder / "wrappers.cpp").write_text(WRAPPERS, "ascii")
    flags = ["-std=c++17", "-O1", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-Wno-unused", f"-I{SOURCE.parent}"]
    subprocess.run([compiler, *flags, "wrappers.cpp", "-o", "probe.so"], cwd=folder, check=True)
    built = ctypes.CDLL(str(folder / "probe.so"))
    built.form_name.restype = ctypes.c_char_p
    for name in ("form_power", "form_sign", "form_instruction", "form_scales"):
        getattr(built, name).restype = ctypes.c_uint32
    built.matrix.restype = ctypes.c_uint64
    return built


@pytest.fixture(scope="module")
def forms(library: ctypes.CDLL) -> list[Form]:
    found = []
    for number in range(library.count_forms()):
        numbers = (ctypes.c_int * 4)()
        library.form_range(number, numbers)
        found.append(Form(number, library.form_name(number).decode("ascii"), *numbers))
    return found


@pytest.fixture(scope="module")
def images(library: ctypes.CDLL, forms: list[Form]) -> dict[str, tuple[bytes, bytes]]:
    """Shared memory of A and B with the known product's operands."""
    filled = {}
    for form in forms:
        a, b = ctypes.create_string_buffer(4096), ctypes.create_string_buffer(512)
        library.fill(form.number, 0, 128, a)
        library.fill(form.number, 1, 16, b)
        filled[form.name] = (a.raw, b.raw)
    return filled


def test_every_kind_and_format_is_tested(forms: list[Form]) -> None:
    asked = {(form.kind, form.format) for form in forms}
    assert asked == {(kind, fmt) for kind, formats in TYPES.items() for fmt in formats}
    assert len(asked) == len(forms)
    for form in forms:
        bits = 4 if form.kind.startswith("mxf4") else max(WIDTHS[form.format], 8)
        assert form.k == 256 // bits, "an instruction reads 32 bytes of a row"
        assert form.name == f"tcgen05.mma.{form.kind}.m128n16k{form.k}.f32.{form.format}"
        assert find_path(form.name) == "tcgen05.mma"


@pytest.mark.parametrize("address", [0, 0x400, 0x12340, 0x3FFF0])
def test_matrix_descriptor(library: ctypes.CDLL, address: int) -> None:
    fields = {"address": address >> 4, "leading": 128 >> 4, "stride": 256 >> 4, "constant": 1}
    assert split_fields(library.matrix(address), MATRIX_FIELDS) == {name: v for name, v in fields.items() if v}


def test_instruction_descriptors(library: ctypes.CDLL, forms: list[Form]) -> None:
    for form in forms:
        number = TYPES[form.kind][form.format]
        fields = {"a": number, "b": number, "n / 8": 2}
        if not form.kind.startswith("mx"):
            table, fields = PLAIN_FIELDS, fields | {"d": 1, "m / 16": 8}
        else:
            table = PACKED_FIELDS if form.kind.startswith("mxf4") else SCALED_FIELDS
            fields |= {"m / 128": 1, "ue8m0": int(form.kind != "mxf4nvf4")}
        got = split_fields(library.form_instruction(form.number), table)
        assert got == {name: value for name, value in fields.items() if value}, form.name


def test_scale_factors_are_ones(library: ctypes.CDLL, forms: list[Form]) -> None:
    for form in forms:
        word = np.array([library.form_scales(form.number)], np.uint32).view(np.uint8)
        if form.kind.startswith("mx"):
            scales = mxspec.decode(word, "ue4m3" if form.kind == "mxf4nvf4" else "e8m0")
            assert scales.tolist() == [1.0] * 4
        else:
            assert word.tolist() == [0] * 4


def test_terms_of_the_questions_are_what_they_should_be(library: ctypes.CDLL, forms: list[Form]) -> None:
    """Every power that the questions take is in the format, and the narrow ones are asked for all that they have."""
    for form in forms:
        exponents = sorted({e for total in range(form.low, form.high + 1) for e in (total >> 1, total - (total >> 1))} | {form.low // 2})
        codes = np.array([library.form_power(form.number, e) for e in exponents], np.uint32)
        assert decode(codes, form.format).tolist() == [2.0**e for e in exponents], form.name
        negative = codes | np.uint32(library.form_sign(form.number))
        assert decode(negative, form.format).tolist() == [-(2.0**e) for e in exponents], form.name
        if WIDTHS[form.format] < 8:
            every = np.abs(decode(np.arange(1 << WIDTHS[form.format], dtype=np.uint32), form.format))
            powers = [e for e in range(-10, 10) if 2.0**e in every]
            assert (form.low, form.high) == (2 * min(powers), 2 * max(powers)), form.name
            assert form.above - form.low > 30


def test_questions_are_those_of_the_other_paths(forms: list[Form]) -> None:
    """The same smallest and largest terms as `bits_kept` gives mma.sync and wgmma."""
    source = SOURCE.read_text("ascii")
    assert "const int low = kind == OF_E4M3 ? -12 : kind == OF_E5M2 || kind == OF_F16 ? -24 : -40;" in source
    assert "const int high = kind == OF_E4M3 ? 16 : kind == OF_E5M2 || kind == OF_F16 ? 30 : 40;" in source
    ends = {"e4m3": (-12, 16), "e5m2": (-24, 30), "f16": (-24, 30), "bf16": (-40, 40), "tf32": (-40, 40)}
    for form in forms:
        assert (form.low, form.high, form.above) == RANGES[form.format]
        assert read_name(form.name).k == form.k
        if form.format in ends:
            assert (form.low, form.high, form.above) == (*ends[form.format], ends[form.format][1])


def known(library: ctypes.CDLL, form: Form) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    answer = np.array([[library.answer(r, c) for c in range(16)] for r in range(128)], np.float64)
    addend = np.array([[library.addend(r, c, form.k) for c in range(16)] for r in range(128)], np.float64)
    return answer, addend


def test_known_product_lies_in_the_canonical_layout(
    library: ctypes.CDLL, forms: list[Form], images: dict[str, tuple[bytes, bytes]]
) -> None:
    for form in forms:
        a, b = (read_matrix(image, rows, form) for image, rows in zip(images[form.name], (128, 16), strict=True))
        answer, addend = known(library, form)
        assert np.array_equal(a @ b.T + addend, answer), form.name
        assert len(np.unique(answer)) == answer.size
        assert len(np.unique(a, axis=0)) == 128
        assert len(np.unique(b, axis=0)) == 16
        assert len(np.unique(np.concatenate([a, b]), axis=1).T) == form.k
        # no unit that keeps 11 bits below the largest exponent rounds any of it
        partial = np.abs(addend)[:, :, None] + np.cumsum(np.abs(a[:, None, :] * b[None, :, :]), axis=2)
        assert partial.max() < 2**12, form.name


#: Mistakes -> what the chip would read then, or hand back.
MISTAKES: dict[str, Callable[[npt.NDArray[np.float64], npt.NDArray[np.float64], npt.NDArray[np.float64]], npt.NDArray[np.float64]]] = {
    "rows of A turned": lambda a, b, c: np.roll(a, 1, axis=0) @ b.T + c,
    "columns of B turned": lambda a, b, c: a @ np.roll(b, 1, axis=0).T + c,
    "half of k": lambda a, b, c: a[:, ::2] @ b[:, ::2].T + c,
    "the second 16 bytes of A for the first": lambda a, b, c: np.roll(a, a.shape[1] // 2, axis=1) @ b.T + c,
    "eight rows of A for the next": lambda a, b, c: a[np.arange(128) % 8 + np.arange(128) // 16 * 16] @ b.T + c,
    "C is not added": lambda a, b, _: a @ b.T,
    "nothing is multiplied": lambda _, __, c: c,
    "scale factors of two": lambda a, b, c: 2 * a @ b.T + c,
    "lanes of another warp": lambda a, b, c: np.roll(a @ b.T + c, 32, axis=0),
    "columns backwards": lambda a, b, c: (a @ b.T + c)[:, ::-1],
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_known_product_finds(mistake: str, library: ctypes.CDLL, forms: list[Form], images: dict[str, tuple[bytes, bytes]]) -> None:
    for form in forms[:: 1 if mistake == "C is not added" else 7]:
        a, b = (read_matrix(image, rows, form) for image, rows in zip(images[form.name], (128, 16), strict=True))
        answer, addend = known(library, form)
        assert not np.array_equal(MISTAKES[mistake](a, b, addend), answer), form.name


def test_known_product_finds_gaps_that_are_not_there(
    library: ctypes.CDLL, forms: list[Form], images: dict[str, tuple[bytes, bytes]]
) -> None:
    for form in forms:
        if form.kind in ("f8f6f4", "mxf8f6f4") and form.format == "e2m1":
            a, b = (
                read_matrix(image + bytes(16), rows, form, gaps=False) for image, rows in zip(images[form.name], (128, 16), strict=True)
            )
            answer, addend = known(library, form)
            assert not np.array_equal(a @ b.T + addend, answer)


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a", "sm_103f", "sm_110a", "sm_120a"])
def test_compiles_to_the_instructions(target: str, tmp_path: Path) -> None:
    home = os.environ.get("CUDA_HOME", "")
    nvcc = shutil.which("nvcc", path=os.pathsep.join([os.environ.get("PATH", ""), str(Path(home, "bin"))]))
    if nvcc is None:
        pytest.skip("no nvcc on PATH or in CUDA_HOME: the probe is not compiled")
    cubin = tmp_path / "probe.cubin"
    subprocess.run([nvcc, "-O2", "-std=c++17", f"-arch={target}", "-cubin", "-o", str(cubin), str(SOURCE)], check=True)
    done = subprocess.run([find_tool("cuobjdump"), "-sass", str(cubin)], capture_output=True, text=True, check=True)
    found = {word for word in ("UTCHMMA", "UTCQMMA", "UTCOMMA", "LDTM", "STTM", "UTCBAR") if word in done.stdout}
    assert len(found) == (0 if target in ("sm_90a", "sm_120a") else 6)


# ---- What attest says of a chip with such a unit. The answers are constructed: no chip gave them. ----------------------


def construct(k: int, within: int, across: int, asked: tuple[int, int]) -> dict[str, list[int]]:
    return {
        "minus_last": [-1, *[within] * (k - 2), -1], "minus_second": [-1, -1, *[within] * (k - 2)], "accumulator": [-1, *[across] * (k - 1)],
        "asked_up_to": list(asked),
    }  # fmt: skip


@pytest.fixture
def constructed() -> dict[str, Any]:
    """The H200's answers as if of a chip of compute capability 10.0 that had no wgmma and a tcgen05."""
    probe: dict[str, Any] = json.loads(PROBE.read_text("ascii"))
    sums = {name: kept for name, kept in probe["bits_kept"].items() if name.startswith("mma.")}
    sums["tcgen05.mma.f8f6f4.m128n16k32.f32.e4m3"] = construct(32, 25, 23, (28, 28))
    sums["tcgen05.mma.f8f6f4.m128n16k32.f32.e2m1"] = construct(32, 6, 23, (6, 40))
    unanswered = {
        "tcgen05.mma.f16.m128n16k16.f32.f16": "the known product is not exact: 3 of 2048 elements differ, such as row 1, column 2: 5, not 4"
    }
    return probe | {"device": "CONSTRUCTED", "compute_capability": "10.0", "bits_kept": sums, "unanswered": unanswered}


def test_each_path_has_verdicts_of_its_own(constructed: dict[str, Any]) -> None:
    sums = {s.instruction: s for s in read_sums(constructed)}
    unit = sums["tcgen05.mma.f8f6f4.m128n16k32.f32.e4m3"]
    assert (unit.path, unit.emulated, unit.within, unit.across) == ("tcgen05.mma", False, (25,), (23,))
    assert unit.classes == ("fused-f25-32",)
    other = sums["mma.m16n8k32.f32.e4m3"]
    assert (other.path, other.emulated, other.classes) == ("mma.sync", True, ())
    assert {s.path for s in sums.values()} == {"mma.sync", "tcgen05.mma"}


def test_bits_at_the_end_of_the_questions_bear_out_no_class(constructed: dict[str, Any]) -> None:
    name = "tcgen05.mma.f8f6f4.m128n16k32.f32.e2m1"
    narrow = next(s for s in read_sums(constructed) if s.instruction == name)
    assert (narrow.open_ends, narrow.classes) == ((True, False), ())
    other = "tcgen05.mma.f8f6f4.m128n16k32.f32.e4m3"
    for within, classes in ((28, ()), (25, ("fused-f25-32",))):
        constructed["bits_kept"] = {other: construct(32, within, 23, (28, 28))}
        assert [s.classes for s in read_sums(constructed)] == [classes]


# ---- A unit's answers, place by place: exact fractions, as the probe's own text asks. -----------------------------------


def ask_unit(k: int, group: int, fraction: int, output: int, fmt: str) -> dict[str, list[int]]:
    """What the probe writes of a unit that adds `group` products and the sum at a time."""
    low, high, above = RANGES[fmt]

    def exponent(v: Fraction) -> int:
        return math.frexp(abs(float(v)))[1] - 1

    def cut(v: Fraction, unit: Fraction) -> Fraction:
        return math.trunc(v / unit) * unit

    def add(terms: list[Fraction], total: Fraction) -> Fraction:
        for start in range(0, k, group):
            addends = [v for v in (*terms[start : start + group], total) if v]
            if not addends:
                continue
            last = Fraction(2) ** (max(map(exponent, addends)) - fraction)
            total = sum((cut(v, last) for v in addends), Fraction(0))
            total = cut(total, Fraction(2) ** (exponent(total) - output)) if total else total
        return total

    def ask(minus_at: int | None, place: int) -> int:
        if place in (0, minus_at):
            return -1
        small = Fraction(2) ** low
        for t in range((above if minus_at is None else high) - low + 1):
            terms, large = [Fraction(0)] * k, Fraction(2) ** (low + t)
            terms[place] = small
            if minus_at is not None:
                terms[0], terms[minus_at] = large, -large
            found = add(terms, large) - large if minus_at is None else add(terms, Fraction(0))
            if found != small:
                return t - 1
        return t

    return {
        key: [ask(minus, place) for place in range(k)] for key, minus in (("minus_last", k - 1), ("minus_second", 1), ("accumulator", None))
    }


#: Instruction -> group, bits among products, bits handed on of a unit, and the classes that it is.
UNITS = (
    ("mma.m16n8k16.f32.f16", 8, 24, 23, ("fused-f24-8",)),
    ("mma.m16n8k16.f32.bf16", 8, 24, 23, ("fused-f24-8",)),
    ("mma.m16n8k8.f32.tf32", 4, 24, 23, ()),
    ("mma.m16n8k16.f32.f16", 4, 23, 23, ("fused-f23-4",)),
    ("mma.m16n8k32.f32.e4m3", 16, 13, 13, ("fused-f13-16",)),
    ("mma.m16n8k32.f32.e5m2", 16, 13, 13, ("fused-f13-16",)),
    ("wgmma.m64n8k32.f32.e4m3", 32, 13, 13, ("fused-f13-32",)),
    ("wgmma.m64n8k16.f32.bf16", 16, 25, 23, ("fused-f25-16",)),
    ("wgmma.m64n8k16.f32.bf16", 8, 25, 23, ("fused-f25-8",)),
    ("tcgen05.mma.f8f6f4.m128n16k32.f32.e3m2", 32, 13, 13, ("fused-f13-32",)),
)


@pytest.mark.parametrize(("name", "group", "fraction", "output", "classes"), UNITS)
def test_a_unit_is_named_by_every_place(name: str, group: int, fraction: int, output: int, classes: tuple[str, ...]) -> None:
    """An instruction of several groups answers differently from place to place, and no other class does as it does."""
    instruction = read_name(name)
    kept = ask_unit(instruction.k, group, fraction, output, instruction.format)
    probe = {"bits_kept": {name: kept}, "compute_capability": "8.9"}
    assert [s.classes for s in read_sums(probe)] == [classes]
    for unit in classes:
        for question in list_questions(instruction.k):
            assert list(answer_question(get_accumulator(unit), instruction, question)) == kept[question.key]


def test_a_place_that_keeps_nothing_is_an_answer() -> None:
    probe = json.loads(PROBE.read_text("ascii"))
    name = "wgmma.m64n8k16.f32.f16"
    probe["bits_kept"][name]["minus_last"][5] = -1
    found = next(s for s in read_sums(probe) if s.instruction == name)
    assert (found.classes, found.within, show_bits(found)) == ((), (-1, 25), "none/25, 23")
    probe["bits_kept"][name] = {key: [-1] * 16 for key in ("minus_last", "minus_second", "accumulator")}
    assert next(s for s in read_sums(probe) if s.instruction == name).classes == ()


# ---- Words, messages and what attest refuses. -----------------------------------------------------------------------


def run_attest(probe: Any, folder: Path) -> tuple[int, str]:
    file = folder / "chip.json"
    file.write_text(probe if isinstance(probe, str) else json.dumps(probe), "ascii")
    done = CliRunner().invoke(attest, [str(file)], terminal_width=300)
    assert done.exception is None or isinstance(done.exception, SystemExit)
    return done.exit_code, " ".join(done.output.split())


def test_flushed_subnormals_are_said(tmp_path: Path) -> None:
    probe = json.loads(PROBE.read_text("ascii"))
    assert run_attest(probe, tmp_path)[1].count("hardware, subnormals kept") == 6
    probe["subnormals"] |= {"sub": "00000000", "f16x2": "0000", "mul": "12345678"}
    code, text = run_attest(probe, tmp_path)
    assert code == 1
    assert text.count("DIFFERS, subnormals flushed") == 2
    assert "DIFFERS, 12345678, not 00400000" in text


@pytest.mark.parametrize(
    ("lines", "code", "words"),
    [
        ([["2222"] * 32, *[["2323"] * 32] * 8], 0, "provisional, neighbours of their numbers"),
        ([["2222"] * 32, *[["beef"] * 32] * 8], 1, "no neighbour of its number"),
        ([["2322"] * 32, *[["2323"] * 32] * 8], 1, "no neighbour of its number"),
        ([["2222"] * 32], 2, "has fewer members than"),
        ([["2222"] * 31] * 9, 2, "does not match"),
    ],
)
def test_stochastic_words_are_read(lines: list[list[str]], code: int, words: str, tmp_path: Path) -> None:
    probe = json.loads(PROBE.read_text("ascii"))
    probe["stochastic"] = {"cvt.rs.satfinite.e2m1x4.f32": [" ".join(line) for line in lines]}
    found, text = run_attest(probe, tmp_path)
    assert found == code
    assert words in text


def test_what_the_target_lacks_is_not_called_the_chips(tmp_path: Path) -> None:
    probe = json.loads(PROBE.read_text("ascii"))
    narrow = "cvt.rn.satfinite.e2m1x2.f32"
    for capability, words in (
        ("9.0", "not on this chip; the evidence stays read"),
        ("10.0", "compile it for sm_100a"),
        ("12.1", "only if compiled for sm_100a"),
    ):
        assert f"{words}" in run_attest(probe | {"compute_capability": capability}, tmp_path)[1].split(narrow)[0]
    probe["conversions"].pop("cvt.rn.satfinite.e4m3x2.f32")
    assert "compile it for sm_90a: cvt.rn.satfinite.e4m3x2.f32" in run_attest(probe, tmp_path)[1]
    amd = {"vendor": "amd", "compute_capability": "9.4", "device": "MI300X", "conversions": {}, "bits_kept": {}}
    text = run_attest(probe | amd, tmp_path)[1]
    assert "MI300X (AMD, gfx 9.4)" in text
    assert "compute capability" not in text


def test_attest_names_paths_and_what_did_not_answer(constructed: dict[str, Any], tmp_path: Path) -> None:
    file, out = tmp_path / "chip.json", tmp_path / "attest.json"
    file.write_text(json.dumps(constructed), "ascii")
    done = CliRunner().invoke(attest, [str(file), "--json", str(out)])
    assert done.exit_code == 0
    assert "6 or more, 23" in done.output
    assert "no answer from tcgen05.mma.f16.m128n16k16.f32.f16: the known product is not exact" in done.output
    for name in constructed["bits_kept"]:
        assert f"{name} " in done.output, "a name is shown whole"
    document = json.loads(out.read_text("ascii"))
    assert document["unanswered"] == constructed["unanswered"]
    assert {s["instruction"]: s["path"] for s in document["sums"]} == {n: find_path(n) for n in constructed["bits_kept"]}


def test_answers_that_cannot_be_are_refused(constructed: dict[str, Any], tmp_path: Path) -> None:
    name = "tcgen05.mma.f8f6f4.m128n16k32.f32.e4m3"
    with pytest.raises(ValueError, match="both answered and unanswered"):
        read_unanswered(constructed | {"unanswered": {name: "late"}})
    for key in ("bits_kept", "unanswered"):
        file = tmp_path / f"{key}.json"
        file.write_text(json.dumps(constructed | {key: {"tcgen06.mma.e4m3": constructed[key].popitem()[1]}}), "ascii")
        done = CliRunner().invoke(attest, [str(file)])
        assert done.exit_code == 2
        assert "none of the paths mma.sync, wgmma, tcgen05.mma" in done.output


CAST, UNIT = "cvt.rn.satfinite.e4m3x2.f16x2", "mma.m16n8k16.f32.f16"
#: Place, what it becomes (None: it is not there), and what the refusal says.
CUT: tuple[tuple[tuple[Any, ...], Any, str], ...] = (
    (("bits_kept",), None, "'bits_kept' is missing"),
    (("bits_kept", UNIT, "minus_last", 3), None, "it adds 16 products, and there are 15 and 16 answers"),
    (("bits_kept", UNIT, "accumulator", 0), "25", "'25' is not of type 'integer'"),
    (("conversions", CAST, "runs"), None, "has fewer members than"),
    (("conversions", CAST, "runs"), "00000000:00 00000010:01 00000010:02", "its runs do not ascend to 65536 inputs"),
    (("conversions", CAST, "inputs"), 1 << 32, "4294967296 inputs are not all 2^16"),
    (
        ("conversions", CAST),
        {"inputs": 1 << 16, "different_from_nearest_even": 0},
        "the probe writes its runs or too_many_runs, not different",
    ),
    (
        ("conversions", "cvt.rn.f16.f32"),
        {"inputs": 1 << 32, "runs": "00000000:00"},
        "the probe writes its different_from_nearest_even, not runs",
    ),
    (("conversions", CAST), {"inputs": 1 << 16, "too_many_runs": 12}, "12 runs are not too many"),
    (("conversions", CAST, "runs"), "00000000:00 00000010:00", "the same answer twice in a row"),
    (("reciprocal", "above"), 733798, "the table of CRC 203b808e has"),
    (("reciprocal", "below"), 0, "no table of 2^23 differences has 0 below"),
    (("bits_kept", UNIT, "minus_last", 0), 25, "minus_last has 25 at place 0, where nothing is asked"),
    (("bits_kept", UNIT, "accumulator", 3), 55, "has 55 bits at place 3; the probe asks up to 54"),
    (("bits_kept", UNIT, "asked_up_to"), [54, 53], "the probe asks up to [54, 54]"),
    (
        ("bits_kept", "mma.sync"),
        {k: [-1] for k in ("minus_last", "minus_second", "accumulator")},
        "'mma.sync' is no name of an instruction",
    ),
    (("reciprocal", "inputs"), 1 << 23, "is not 4294967296"),
)


@pytest.mark.parametrize(("place", "value", "words"), CUT)
def test_a_file_that_is_not_whole_is_refused(place: tuple[Any, ...], value: Any, words: str, tmp_path: Path) -> None:
    probe = json.loads(PROBE.read_text("ascii"))
    part = probe
    for key in place[:-1]:
        part = part[key]
    if value is None:
        del part[place[-1]]
    else:
        part[place[-1]] = value
    file = tmp_path / "chip.json"
    file.write_text(json.dumps(probe), "ascii")
    done = CliRunner().invoke(attest, [str(file), "--json", str(tmp_path / "attest.json")])
    assert (done.exit_code, done.exception.__class__) == (2, SystemExit)
    assert words in " ".join(done.output.split())
    assert not (tmp_path / "attest.json").exists()


@pytest.mark.parametrize("chip", ["h100", "h200"])
def test_committed_attestation_is_of_the_committed_probe(chip: str) -> None:
    probe = json.loads((PROBE.parent / f"probe-{chip}.json").read_text("ascii"))
    committed = json.loads((PROBE.parent / f"attest-{chip}.json").read_text("ascii"))
    assert {s["instruction"]: tuple(s["classes"]) for s in committed["sums"]} == {s.instruction: s.classes for s in read_sums(probe)}
    assert {s["path"] for s in committed["sums"]} == {"mma.sync", "wgmma"}
    assert committed["unanswered"] == {}
