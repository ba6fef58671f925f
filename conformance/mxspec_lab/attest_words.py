"""What a probe recorded as single words: operations with subnormals, and stochastic conversions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from mxspec_lab.attest_verdict import Verdict

#: Key of `subnormals` -> what the probe computes, and its word where operands and results are kept as IEEE 754 has it.
SUBNORMALS: dict[str, tuple[str, str]] = {
    "mul": ("float32 2^-126 * 2^-1", "00400000"),
    "mul_up": ("float32 2^-149 * 2^30", "04000000"),
    "sub": ("float32 2^-126 - 2^-149", "007fffff"),
    "fma": ("float32 fma(2^-126, 2^-1, 2^-149)", "00400001"),
    "bf16x2": ("fma.rn.bf16x2 2^-126 * 2^-1 - 0", "0040"),
    "f16x2": ("mul.rn.f16x2 2^-14 * 2^-1", "0200"),
}
#: What the operations are if a subnormal operand or result counts as zero.
_FLUSHED: dict[str, tuple[str, ...]] = {
    "mul": ("00000000",), "mul_up": ("00000000",), "sub": ("00000000", "00800000"), "fma": ("00000000", "00400000", "00000001"),
    "bf16x2": ("0000",), "f16x2": ("0000",),
}  # fmt: skip
#: Codes of e2m1 on both sides of the probe's numbers, which lie from 1 up to below 1.5; the first of them is 1.
_ONE, _ABOVE = "2", "3"


def read_subnormals(seen: Mapping[str, str]) -> Iterator[Verdict]:
    """A verdict for each operation: whether it keeps subnormals, as the model's do."""
    for key, word in seen.items():
        name, kept = SUBNORMALS[key]
        said = "subnormals kept" if word == kept else "subnormals flushed" if word in _FLUSHED[key] else f"{word}, not {kept}"
        yield Verdict(name, 1, int(word != kept), said)


def read_stochastic(seen: Mapping[str, Sequence[str]]) -> Iterator[Verdict]:
    """A verdict for each instruction: every code is a neighbour of its number, and of 1 the code of 1.

    Which random bit serves which element is recorded and not compared: the model has no certain rule of it.
    """
    for name, lines in seen.items():
        words = [(m, word) for m, line in enumerate(lines) for word in line.split()]
        wrong = sum(not set(word) <= ({_ONE} if m == 0 else {_ONE, _ABOVE}) for m, word in words)
        note = "no neighbour of its number" if wrong else "neighbours of their numbers; which bit serves which element is recorded, not compared"
        yield Verdict(name, len(words), wrong or None, note)
