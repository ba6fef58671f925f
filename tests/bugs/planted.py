"""The planted targets: files with one rare bug each, chosen before the fuzzer was tuned."""

from __future__ import annotations

from pathlib import Path

from tests.bugs.entry import Entry, Fuzzed

FOLDER = Path(__file__).resolve().parents[1] / "targets" / "planted"


def _entry(
    name: str, fmt: str, what: str, text: str, lanes: int, *must: str, pattern: str = "block", stop: bool = True,
    may: tuple[str, ...] = (),
) -> Entry:  # fmt: skip
    return Entry(
        id=name, what=what, formats=(fmt,), target=lambda: str(FOLDER / f"{name}.py"), must_fail=must, may_fail=may,
        fuzzed=Fuzzed(text=text, lanes=lanes, pattern=pattern, stop=stop),
    )  # fmt: skip


ENTRIES: tuple[Entry, ...] = (
    _entry("one_threshold", "mxfp8_e4m3", "the tie between 1.125 and 1.25 goes down", "code 39 instead of 3a", 2, "quantize/tie-even"),
    _entry("one_scale_byte", "mxfp4", "under scale byte 1d elements are rounded toward zero", "only under scale byte 1d", 2, "quantize/above-tie,tie-even", stop=False),
    _entry("one_position", "mxfp6_e2m3", "ties of lane 19 go away from zero", "only in lane 19", 2, "quantize/tie-even"),
    _entry("large_call", "nvfp4", "beyond 512 blocks the maximum is that of the first half", "block 512 of a call of 513", 1, "quantize/call-size", "scale/scale-tie", pattern="call"),
    _entry("second_call", "mxfp4", "the second call's last block gets twice its scale", "only in call 2 after loading", 1, "quantize/state", pattern="history"),
    _entry("negative_zero", "mxfp8_e5m2", "-0 under scale byte 00 becomes the smallest negative value", "only under scale byte 00", 2, "quantize/subnormal"),
    _entry("one_exponent", "mxint8", "maxima from 2^-87 to 2^-86 get half their scale", "only under scale byte 27", 1, "quantize/mixture,overflow,scale-boundary", "scale/scale-boundary"),
    _entry("odd_stride", "mxfp4", "rows an odd number of elements apart are read as if contiguous", "'padded'", 1, "quantize/memory", pattern="arranged"),
    _entry("last_block", "mxfp6_e3m2", "the last lane of a call's last block is lost", "as the last block of a call", 1, "quantize/call-size,exact,subnormal,tie-even"),
    _entry("neighbours", "mxfp4", "codes 7 and 9 in one byte become 7 and 8", "only in odd lanes, after a lane of code 07", 2, "quantize/above-tie,below-tie,subnormal"),
    _entry("two_maxima", "mxfp8_e4m3", "a maximum with both signs gets twice its scale", "wherever the block stands", 2, "quantize/above-tie,below-tie,exact,mixture,scale-boundary,scale-clamp,subnormal,tie-even"),
    _entry("smallest_scale", "nvfp4", "-0.5 under scale byte 01 is lost", "only under scale byte 01", 2, "quantize/subnormal"),
    _entry("one_value", "mxfp4", "code 05 in odd lanes under scale byte c3 is doubled", "under scale byte c3, in odd lanes", 1, "dequantize/code"),
)  # fmt: skip
