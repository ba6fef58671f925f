// The profiles by DPI-C, and coverage of the golden vectors' topics. Link mxspec_dpi.c. Code: Apache-2.0.
// x: 32 bits a lane, codes: 8 bits a lane, lane 0 in the low bits; blocks of 16 use the lower half.
package mxspec_pkg;
  import "DPI-C" function int mxspec_find(input string profile, input string format, input int with_tensor_scale);
  import "DPI-C" function int unsigned mxspec_expect(input int row, input bit [1023:0] x, input int unsigned tensor_scale, output bit [255:0] codes);
  import "DPI-C" function int mxspec_judge(input int row, input bit [1023:0] x, input int unsigned tensor_scale, input bit [255:0] codes, input int unsigned scale);
  import "DPI-C" function string mxspec_name(input int row);
  import "DPI-C" function void mxspec_reset();
  import "DPI-C" function int unsigned mxspec_topics(input int row, input bit [1023:0] x, input int unsigned tensor_scale);

  parameter int MXSPEC_EXACT = 0; // a quotient that is a value of the format keeps it
  parameter int MXSPEC_TIE_EVEN = 1; // a quotient midway between two codes goes to the even one
  parameter int MXSPEC_BELOW_TIE = 2; // a quotient just below a midpoint goes to the lower code
  parameter int MXSPEC_ABOVE_TIE = 3; // a quotient just above a midpoint goes to the upper code
  parameter int MXSPEC_OVERFLOW = 4; // magnitudes beyond the largest normal are clamped to it, sign kept
  parameter int MXSPEC_SUBNORMAL = 5; // subnormal elements and inputs are rounded like all others
  parameter int MXSPEC_ZERO_SIGN = 6; // the sign of zero is kept, underflow included
  parameter int MXSPEC_ZERO_BLOCK = 7; // a block of zeros is stored as zeros under a scale that is a number
  parameter int MXSPEC_NAN = 8; // a block that holds a NaN is stored as the profile says
  parameter int MXSPEC_INF = 9; // a block that holds an infinity is stored as the profile says
  parameter int MXSPEC_SCALE_BOUNDARY = 10; // the scale changes exactly where the rule says
  parameter int MXSPEC_SCALE_CLAMP = 11; // scales beyond the scale format's range are clamped to its ends

`ifdef VERILATOR // no covergroups in most versions; +define+MXSPEC_COVERAGE where yours has them
`ifndef MXSPEC_COVERAGE
`define MXSPEC_NO_COVERAGE
`endif
`endif
`ifndef MXSPEC_NO_COVERAGE
  // sample(mxspec_topics(row, x, tensor_scale)) for each block.
  covergroup mxspec_coverage with function sample(bit [31:0] seen);
    exact: coverpoint seen[0] { bins met = {1}; }
    tie_even: coverpoint seen[1] { bins met = {1}; }
    below_tie: coverpoint seen[2] { bins met = {1}; }
    above_tie: coverpoint seen[3] { bins met = {1}; }
    overflow: coverpoint seen[4] { bins met = {1}; }
    subnormal: coverpoint seen[5] { bins met = {1}; }
    zero_sign: coverpoint seen[6] { bins met = {1}; }
    zero_block: coverpoint seen[7] { bins met = {1}; }
    nan: coverpoint seen[8] { bins met = {1}; }
    inf: coverpoint seen[9] { bins met = {1}; }
    scale_boundary: coverpoint seen[10] { bins met = {1}; }
    scale_clamp: coverpoint seen[11] { bins met = {1}; }
  endgroup
`endif
endpackage
