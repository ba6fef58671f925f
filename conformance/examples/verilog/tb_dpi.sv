// The same comparison by the profile itself, through DPI-C, on random blocks: a name for what is wrong, and coverage. Then the sums of the kit's file by
// the units of mxspec_dot.h, as a scoreboard of an adder would ask for them.
// Run in the folder of the kit, with EXAMPLES the folder of this file; from elsewhere add +define+MXSPEC_DIR='"FOLDER_OF_THE_KIT"':
// $ verilator --binary -Wno-fatal -Wno-WIDTH --top-module tb_dpi mxspec_pkg.sv EXAMPLES/tb_dpi.sv EXAMPLES/mxfp4_quantizer.v mxspec_dpi.c && obj_dir/Vtb_dpi
`timescale 1ns / 1ns
module tb_dpi;
  import mxspec_pkg::*;
  parameter TIES_AWAY = 0;
  parameter BLOCKS = 20000;
  `include "mxspec_index.vh"
  bit [MXFP4_DOT_BITS - 1:0] sums [MXFP4_DOT_LINES];
  bit [1023:0] x, next, seen_lanes;
  bit [255:0] lanes;
  bit [127:0] codes;
  bit [7:0] scale;
  bit [31:0] seen;
  int row, unit, failed, left_open, wrong_sums;
`ifndef MXSPEC_NO_COVERAGE
  mxspec_mxfp4_blocks blocks_covered = new;
  mxspec_mxfp4_lanes lanes_covered = new;
`endif

  mxfp4_quantizer #(.TIES_AWAY(TIES_AWAY)) dut (.x(x), .codes(codes), .scale(scale));

  initial begin
    row = mxspec_find("mx-floor", "mxfp4", 0);
    if (row < 0) $fatal(1, "no such profile");
    for (int block = 0; block < BLOCKS; block++) begin
      // Exponents near each other and few significant bits, or one step of float32 from such: ties and their neighbours, clamps; every 64th block is zero.
      bit [7:0] top;
      top = $urandom;
      for (int lane = 0; lane < 32; lane++) begin
        bit [31:0] r, word;
        r = $urandom;
        word = {r[0], 8'(top > {5'd0, r[3:1]} ? top - {5'd0, r[3:1]} : 8'd0), r[4] ? r[27:5] : {r[27:25], 20'd0}};
        next[32 * lane +: 32] = block % 64 == 0 ? {r[0], 31'd0} : r[31:30] == 1 && word[30:0] != 0 ? word - 1 : r[31:30] == 2 ? word + 1 : word;
      end
      x <= next; // not blocking: Verilator 5.006 does not see a change of a part
      #1;
      for (int lane = 0; lane < 32; lane++) lanes[8 * lane +: 8] = {4'd0, codes[4 * lane +: 4]};
      seen = mxspec_cover(row, x, 0, seen_lanes);
`ifndef MXSPEC_NO_COVERAGE
      blocks_covered.sample(seen);
      for (int lane = 0; lane < 32; lane++) lanes_covered.sample(seen_lanes[32 * lane +: 32]);
`endif
      case (mxspec_judge(row, x, 0, lanes, {24'd0, scale}))
        MXSPEC_WRONG: failed++;
        MXSPEC_OPEN: left_open++;
        default: ;
      endcase
    end
    $readmemh(MXFP4_DOT_FILE, sums);
    if (sums[0] == 0) $fatal(1, "%s was not read: run in its folder, or with +define+MXSPEC_DIR", MXFP4_DOT_FILE);
    unit = mxspec_unit("fused-f13-32");
    for (int i = 0; i < MXFP4_DOT_LINES; i++)
      if (mxspec_dot(unit, row, row, MXFP4_DOT_A_CODE_COUNT, sums[i][MXFP4_DOT_A_CODE_LOW +: 8 * MXFP4_DOT_A_CODE_COUNT],
                     sums[i][MXFP4_DOT_A_SCALE_LOW +: 8 * MXFP4_DOT_A_SCALE_COUNT], sums[i][MXFP4_DOT_B_CODE_LOW +: 8 * MXFP4_DOT_B_CODE_COUNT],
                     sums[i][MXFP4_DOT_B_SCALE_LOW +: 8 * MXFP4_DOT_B_SCALE_COUNT]) != sums[i][MXFP4_DOT_FUSED_F13_32_LOW +: 32]) wrong_sums++;
    $display("RESULT blocks=%0d failed=%0d open=%0d sums=%0d wrong_sums=%0d covered=%s name=%s", BLOCKS, failed, left_open, MXFP4_DOT_LINES, wrong_sums, mxspec_covered(row), mxspec_name(row));
    $finish;
  end
endmodule
