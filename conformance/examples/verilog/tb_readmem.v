// Compares a quantizer with the blocks of `mxspec kit hardware`; any Verilog simulator.
// iverilog -I FOLDER_OF_THE_KIT -DMXSPEC_DIR='"FOLDER_OF_THE_KIT"' -o readmem.vvp tb_readmem.v mxfp4_quantizer.v && vvp readmem.vvp
// Names, lines and fields are those of the kit's index; for another rule put its name in place of MX_FLOOR.
`timescale 1ns / 1ns
module tb_readmem;
  parameter TIES_AWAY = 0;
  `include "mxspec_index.vh"
  localparam WIDTH = MXFP4_MX_FLOOR_MASK_BITS; // the scale byte above 8 bits a lane
  reg [MXFP4_X_BITS - 1:0] inputs [0:MXFP4_X_LINES - 1];
  reg [MXFP4_MX_FLOOR_BITS - 1:0] answers [0:MXFP4_MX_FLOOR_LINES - 1];
  reg [MXFP4_MX_FLOOR_BITS - 1:0] answer;
  reg [MXFP4_X_BITS - 1:0] x;
  reg [WIDTH - 1:0] returned;
  wire [127:0] codes;
  wire [7:0] scale;
  integer block, line, lane, right, allowed, failed, left_open;

  mxfp4_quantizer #(.TIES_AWAY(TIES_AWAY)) dut (.x(x), .codes(codes), .scale(scale));

  initial begin
    $readmemh(MXFP4_X_FILE, inputs);
    $readmemh(MXFP4_MX_FLOOR_FILE, answers);
    if ((inputs[0] != 0 && answers[0] != 0) !== 1'b1) // x where a file was not read, 0 in some simulators
      $fatal(1, "%0s or its answers were not read: name their folder by MXSPEC_DIR", MXFP4_X_FILE);
    failed = 0;
    left_open = 0;
    line = 0;
    for (block = 0; block < MXFP4_X_LINES; block = block + 1) begin
      x = inputs[block];
      #1;
      returned = {scale, {8 * MXFP4_X_LANE_COUNT{1'b0}}};
      for (lane = 0; lane < MXFP4_X_LANE_COUNT; lane = lane + 1) returned[8 * lane +: 8] = {4'd0, codes[4 * lane +: 4]};
      right = 0;
      allowed = 0;
      answer = answers[line];
      while (line < MXFP4_MX_FLOOR_LINES && answer[MXFP4_MX_FLOOR_BLOCK_LOW +: MXFP4_MX_FLOOR_BLOCK_BITS] == block) begin // lines are in the order of blocks
        if (((returned ^ answer[WIDTH - 1:0]) & answer[MXFP4_MX_FLOOR_MASK_LOW +: WIDTH]) === {WIDTH{1'b0}}) begin // an x or z of the design is a difference
          if (answer[MXFP4_MX_FLOOR_KIND_LOW +: MXFP4_MX_FLOOR_KIND_BITS] == 0) right = 1;
          else allowed = 1;
        end
        line = line + 1;
        answer = answers[line];
      end
      if (!right && allowed) left_open = left_open + 1;
      if (!right && !allowed) begin
        if (failed < 4) $display("block %0d, topic %0d: returned %h, which no line allows", block, MXFP4_X_TOPICS[8 * block +: 8], returned);
        failed = failed + 1;
      end
    end
    $display("RESULT blocks=%0d failed=%0d open=%0d", block, failed, left_open);
    $finish;
  end
endmodule
