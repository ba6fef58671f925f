// Compares a quantizer with the blocks of `mxspec kit hardware`; any Verilog simulator.
// iverilog -P tb_readmem.TIES_AWAY=0 tb_readmem.v mxfp4_quantizer.v && ./a.out +x=mxfp4.x.hex +want=mxfp4.mx-floor.hex
`timescale 1ns / 1ns
module tb_readmem;
  parameter TIES_AWAY = 0;
  parameter BLOCKS = 4096;
  parameter LINES = 8192;
  reg [1023:0] inputs [0:BLOCKS - 1];
  reg [551:0] answers [0:LINES - 1]; // kind, block, bits that count, scale byte, then 8 bits a lane: the head of the file says which
  reg [551:0] answer;
  reg [1023:0] x;
  reg [263:0] returned;
  reg [8 * 256 - 1:0] name;
  wire [127:0] codes;
  wire [7:0] scale;
  integer block, line, lane, right, allowed, failed, left_open;

  mxfp4_quantizer #(.TIES_AWAY(TIES_AWAY)) dut (.x(x), .codes(codes), .scale(scale));

  initial begin
    if (!$value$plusargs("x=%s", name)) name = "mxfp4.x.hex";
    $readmemh(name, inputs);
    if (!$value$plusargs("want=%s", name)) name = "mxfp4.mx-floor.hex";
    $readmemh(name, answers);
    failed = 0;
    left_open = 0;
    line = 0;
    for (block = 0; block < BLOCKS && ^inputs[block] !== 1'bx; block = block + 1) begin
      x = inputs[block];
      #1;
      returned = {scale, 256'd0};
      for (lane = 0; lane < 32; lane = lane + 1) returned[8 * lane +: 8] = {4'd0, codes[4 * lane +: 4]};
      right = 0;
      allowed = 0;
      while (line < LINES && answers[line][543:528] === block[15:0]) begin // lines are in the order of blocks
        answer = answers[line];
        if (((returned ^ answer[263:0]) & answer[527:264]) === 264'd0) begin // an x or z of the design is a difference
          if (answer[551:544] == 0) right = 1;
          else allowed = 1;
        end
        line = line + 1;
      end
      if (!right && allowed) left_open = left_open + 1;
      if (!right && !allowed) begin
        if (failed < 4) $display("block %0d: expected, for one, %h, returned %h; bits that count %h", block, answer[263:0], returned, answer[527:264]);
        failed = failed + 1;
      end
    end
    $display("RESULT blocks=%0d failed=%0d open=%0d", block, failed, left_open);
    $finish;
  end
endmodule
