// Compares a quantizer with the blocks of `mxspec kit hardware`; any Verilog simulator.
// iverilog -P tb_readmem.TIES_AWAY=0 tb_readmem.v mxfp4_quantizer.v && ./a.out +x=mxfp4.x.hex +want=mxfp4.mx-floor.hex
`timescale 1ns / 1ns
module tb_readmem;
  parameter TIES_AWAY = 0;
  parameter BLOCKS = 4096;
  reg [1023:0] inputs [0:BLOCKS - 1];
  reg [263:0] wanted [0:BLOCKS - 1]; // scale byte, then 8 bits a lane
  reg [1023:0] x;
  reg [8 * 256 - 1:0] name;
  wire [127:0] codes;
  wire [7:0] scale;
  integer block, lane, lanes, scales, bad, failed;

  mxfp4_quantizer #(.TIES_AWAY(TIES_AWAY)) dut (.x(x), .codes(codes), .scale(scale));

  initial begin
    if (!$value$plusargs("x=%s", name)) name = "mxfp4.x.hex";
    $readmemh(name, inputs);
    if (!$value$plusargs("want=%s", name)) name = "mxfp4.mx-floor.hex";
    $readmemh(name, wanted);
    lanes = 0;
    scales = 0;
    failed = 0;
    for (block = 0; block < BLOCKS && ^inputs[block] !== 1'bx; block = block + 1) begin
      x = inputs[block];
      #1;
      bad = 0;
      if (scale !== wanted[block][263:256]) begin
        scales = scales + 1;
        bad = 1;
      end
      for (lane = 0; lane < 32; lane = lane + 1)
        if ({4'd0, codes[4 * lane +: 4]} !== wanted[block][8 * lane +: 8]) begin
          if (bad == 0 && failed < 4)
            $display("line %0d, lane %0d: x = %h, scale %h: expected %h, returned %h", block + 1, lane, x[32 * lane +: 32], scale, wanted[block][8 * lane +: 4], codes[4 * lane +: 4]);
          lanes = lanes + 1;
          bad = 1;
        end
      failed = failed + bad;
    end
    $display("RESULT blocks=%0d failed=%0d lanes=%0d scales=%0d", block, failed, lanes, scales);
    $finish;
  end
endmodule
