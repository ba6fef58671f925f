"""Files for simulators: DPI-C functions, a SystemVerilog package with coverage bins from the vectors' topics, a scoreboard."""

from __future__ import annotations

from pathlib import Path

from mxspec_vectors.topics import TOPICS

_FOLDER = Path(__file__).parent
#: The topics of single blocks, in the order of their bits.
BLOCK_TOPICS = (
    "exact", "tie-even", "below-tie", "above-tie", "overflow", "subnormal", "zero-sign", "zero-block", "nan", "inf", "scale-boundary", "scale-clamp",
)  # fmt: skip

_PACKAGE = """// The profiles by DPI-C, and coverage of the golden vectors' topics. Link mxspec_dpi.c. Code: Apache-2.0.
// x: 32 bits a lane, codes: 8 bits a lane, lane 0 in the low bits; blocks of 16 use the lower half.
package mxspec_pkg;
  import "DPI-C" function int mxspec_find(input string profile, input string format, input int with_tensor_scale);
  import "DPI-C" function int unsigned mxspec_expect(input int row, input bit [1023:0] x, input int unsigned tensor_scale, output bit [255:0] codes);
  import "DPI-C" function int mxspec_judge(input int row, input bit [1023:0] x, input int unsigned tensor_scale, input bit [255:0] codes, input int unsigned scale);
  import "DPI-C" function string mxspec_name(input int row);
  import "DPI-C" function void mxspec_reset();
  import "DPI-C" function int unsigned mxspec_topics(input int row, input bit [1023:0] x, input int unsigned tensor_scale);

{parameters}

`ifdef VERILATOR // no covergroups in most versions; +define+MXSPEC_COVERAGE where yours has them
`ifndef MXSPEC_COVERAGE
`define MXSPEC_NO_COVERAGE
`endif
`endif
`ifndef MXSPEC_NO_COVERAGE
  // sample(mxspec_topics(row, x, tensor_scale)) for each block.
  covergroup mxspec_coverage with function sample(bit [31:0] seen);
{points}
  endgroup
`endif
endpackage
"""


def write_dpi() -> str:
    """mxspec_dpi.c."""
    text = (_FOLDER / "dpi.c").read_text("ascii").replace("@TOPICS@", ", ".join(BLOCK_TOPICS))
    for i, topic in enumerate(BLOCK_TOPICS):
        text = text.replace(f"@{_constant(topic)}@", f"1u << {i}")
    return text


def write_package() -> str:
    """mxspec_pkg.sv."""
    parameters = "\n".join(f"  parameter int MXSPEC_{_constant(t)} = {i}; // {TOPICS[t]}" for i, t in enumerate(BLOCK_TOPICS))
    points = "\n".join(f"    {t.replace('-', '_')}: coverpoint seen[{i}] {{ bins met = {{1}}; }}" for i, t in enumerate(BLOCK_TOPICS))
    return _PACKAGE.format(parameters=parameters, points=points)


def write_scoreboard() -> str:
    """mxspec_scoreboard.py."""
    return (_FOLDER / "scoreboard.py").read_text("utf-8")


def _constant(topic: str) -> str:
    return topic.replace("-", "_").upper()
