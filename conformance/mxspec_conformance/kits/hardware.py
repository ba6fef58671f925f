"""Files for simulators: DPI-C functions, a SystemVerilog package with coverage bins, a scoreboard."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import mxspec
from mxspec.dot import ACCUMULATORS
from mxspec.formats import get_block
from mxspec_vectors.topics import BLOCK_TOPICS, TOPICS

_FOLDER = Path(__file__).parent
#: Units of mxspec_dot.h -> what `mx_unit` holds of it. `mxspec.dot.simulate_product` sets no largest number to the sums of groups.
UNITS: dict[str, tuple[int | str, ...]] = {
    **{a.name: (a.group, a.fraction, "MX_CUT", a.output_fraction, "MX_CUT", a.least, 9999, a.promoted) for a in ACCUMULATORS.values() if a.group},
    **{f"{name.partition('-')[0]}-chain": (1, 55, "MX_STICKY", a.precision - 1, "MX_NEAREST", a.least, a.most, 0)
       for name, a in ACCUMULATORS.items() if name in ("float32-nearest", "float16", "bfloat16")},
}  # fmt: skip
#: What `mxspec_cover` of mxspec_dpi.c counts, in the order of its bins.
POINTS = ("topic", "scale", "binade", "largest", "input", "threshold")
_EDGES = ("scale_lowest", "scale_highest", "scale_differs_below", "scale_differs_above")

_PACKAGE = """// The profiles by DPI-C, and coverage. Link mxspec_dpi.c. Code: Apache-2.0.
// x: 32 bits a lane, codes: 8 bits a lane, lane 0 in the low bits; blocks of 16 use the lower half.
`timescale 1ns / 1ns
package mxspec_pkg;
  import "DPI-C" function int mxspec_find(input string profile, input string format, input int with_tensor_scale);
  import "DPI-C" function int unsigned mxspec_expect(input int row, input bit [1023:0] x, input int unsigned tensor_scale, output bit [255:0] codes);
  // MXSPEC_RIGHT, MXSPEC_OPEN: differs where OCP leaves the answer open, or MXSPEC_WRONG.
  import "DPI-C" function int mxspec_judge(input int row, input bit [1023:0] x, input int unsigned tensor_scale, input bit [255:0] codes, input int unsigned scale);
  import "DPI-C" function string mxspec_name(input int row);
  import "DPI-C" function void mxspec_reset();
  // What a block is about, and 32 bits for each lane; counts the bins, also where there are no covergroups.
  import "DPI-C" function int unsigned mxspec_cover(input int row, input bit [1023:0] x, input int unsigned tensor_scale, output bit [1023:0] lanes);
  import "DPI-C" function string mxspec_bin(input int row, input int bin);
  import "DPI-C" function int unsigned mxspec_hits(input int bin);
  import "DPI-C" function string mxspec_covered(input int row);
  // Sums of up to 256 products, codes and scales 8 bits each: mxspec_dot.h.
  import "DPI-C" function int mxspec_unit(input string name);
  import "DPI-C" function int mxspec_define_unit(input int group, input int fraction, input int aligned, input int out, input int normalised, input int least, input int most, input int promoted);
  import "DPI-C" function int unsigned mxspec_dot(input int unit, input int a, input int b, input int k, input bit [2047:0] a_codes, input bit [127:0] a_scales, input bit [2047:0] b_codes, input bit [127:0] b_scales);

  parameter int MXSPEC_RIGHT = 0, MXSPEC_OPEN = 1, MXSPEC_WRONG = 2;
  parameter int MX_CUT = 0, MX_NEAREST = 1, MX_STICKY = 2; // of mxspec_define_unit
  // Topics, as TOPIC_* of the index.
{parameters}

`ifdef VERILATOR // no covergroups before 5.050; +define+MXSPEC_COVERAGE where yours has them
`ifndef MXSPEC_COVERAGE
`define MXSPEC_NO_COVERAGE
`endif
`endif
`ifndef MXSPEC_NO_COVERAGE
  // Blocks: sample(mxspec_cover(row, x, tensor_scale, lanes)). Each lane after it: sample(lanes[32*i +: 32]); bins have the order of mxspec_bin.
{groups}
`endif
endpackage
"""


def write_dpi() -> str:
    """mxspec_dpi.c."""
    lists = {"TOPICS": ", ".join(BLOCK_TOPICS), "TOPIC_COUNT": str(len(BLOCK_TOPICS))}
    lists |= {"TOPIC_NAMES": _quote(BLOCK_TOPICS), "POINTS": _quote(POINTS)}
    text = (_FOLDER / "dpi.c").read_text("ascii")
    for name, value in lists.items():
        text = text.replace(f"@{name}@", value)
    for i, topic in enumerate(BLOCK_TOPICS):
        text = text.replace(f"@{_constant(topic)}@", f"1u << {i}")
    return text


def write_dot() -> str:
    """mxspec_dot.h."""
    rows = ",\n".join(f'  {{"{name}", {", ".join(map(str, unit))}}}' for name, unit in UNITS.items())
    return (_FOLDER / "dot.h").read_text("ascii").replace("@VERSION@", mxspec.__version__).replace("@ROWS@", rows)


def write_package(formats: Iterable[str]) -> str:
    """mxspec_pkg.sv, with the covergroups of some formats."""
    parameters = "\n".join(f"  parameter int MXSPEC_{_constant(t)} = {i}; // {TOPICS[t]}" for i, t in enumerate(BLOCK_TOPICS))
    return _PACKAGE.format(parameters=parameters, groups="\n".join(_write_groups(fmt) for fmt in formats))


def _write_groups(fmt: str) -> str:
    block = get_block(fmt)
    magnitudes = block.element.code_count // 2 if block.element.twos_complement else block.element.max_code + 1
    bits = [f"    {t.replace('-', '_')}: coverpoint seen[{i}] {{ bins met = {{1}}; }}" for i, t in enumerate((*BLOCK_TOPICS, *_EDGES))]
    return "\n".join([
        f"  covergroup mxspec_{fmt}_blocks with function sample(bit [31:0] seen);", *bits,
        "    binade: coverpoint seen[23:16] { bins at[] = {[0:255]}; }",
        f"    largest: coverpoint seen[28:24] {{ bins at[] = {{[0:{block.k - 1}]}}; }}", "  endgroup",
        f"  covergroup mxspec_{fmt}_lanes with function sample(bit [31:0] seen);",
        "    given: coverpoint seen[15:12] { bins is[] = {[0:11]}; }",
        f"    threshold: coverpoint seen[9:0] {{ bins at[] = {{[1:{6 * (magnitudes - 1)}]}}; }}", "  endgroup",
    ])  # fmt: skip


def write_scoreboard() -> str:
    """mxspec_scoreboard.py."""
    return (_FOLDER / "scoreboard.py").read_text("utf-8")


def _constant(topic: str) -> str:
    return topic.replace("-", "_").upper()


def _quote(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)
