// The same comparison by the profile itself, through DPI-C, on random blocks: no files, and a name for what is wrong.
// Run: verilator --binary -Wno-fatal -Wno-WIDTH --top-module tb_dpi mxspec_pkg.sv tb_dpi.sv mxfp4_quantizer.v mxspec_dpi.c
`timescale 1ns / 1ns
module tb_dpi;
  import mxspec_pkg::*;
  parameter TIES_AWAY = 0;
  parameter BLOCKS = 20000;
  bit [1023:0] x, next;
  bit [255:0] lanes;
  bit [127:0] codes;
  bit [7:0] scale;
  bit [31:0] seen;
  int row, failed;

  mxfp4_quantizer #(.TIES_AWAY(TIES_AWAY)) dut (.x(x), .codes(codes), .scale(scale));

  initial begin
    row = mxspec_find("mx-floor", "mxfp4", 0);
    if (row < 0) $fatal(1, "no such profile");
    for (int block = 0; block < BLOCKS; block++) begin
      // Exponents near each other and few significant bits, so that ties and clamps are met.
      bit [7:0] top;
      top = $urandom;
      for (int lane = 0; lane < 32; lane++) begin
        bit [31:0] r;
        r = $urandom;
        next[32 * lane +: 32] = {r[0], 8'(top > {5'd0, r[3:1]} ? top - {5'd0, r[3:1]} : 8'd0), r[4] ? r[27:5] : {r[27:25], 20'd0}};
      end
      x <= next; // not blocking: Verilator 5.006 does not see a change of a part
      #1;
      for (int lane = 0; lane < 32; lane++) lanes[8 * lane +: 8] = {4'd0, codes[4 * lane +: 4]};
      seen |= mxspec_topics(row, x, 0);
      if (mxspec_judge(row, x, 0, lanes, {24'd0, scale}) != 0) failed++;
    end
    $display("RESULT blocks=%0d failed=%0d topics=%h name=%s", BLOCKS, failed, seen, mxspec_name(row));
    $finish;
  end
endmodule
