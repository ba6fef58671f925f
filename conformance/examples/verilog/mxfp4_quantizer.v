// An MXFP4 quantizer, combinational: 32 float32 in, 32 codes of e2m1 and a scale byte out, by the rule mx-floor.
// Verilog 2001. TIES_AWAY = 1 plants a mistake: ties go away from zero.
module mxfp4_quantizer #(parameter TIES_AWAY = 0) (
  input wire [1023:0] x,      // lane 0 in the low bits
  output reg [127:0] codes,   // 4 bits a lane
  output reg [7:0] scale
);
  integer i, j, e, shift;
  reg [30:0] amax, magnitude;
  reg [25:0] sig;
  reg [3:0] n;
  reg half, rest;

  always @* begin
    amax = 0;
    for (i = 0; i < 32; i = i + 1)
      if (x[32 * i +: 31] > amax) amax = x[32 * i +: 31];
    if (amax > 31'h7F800000) scale = 8'hFF;
    else if (amax == 31'h7F800000) scale = 8'hFE;
    else scale = amax[30:23] < 2 ? 8'd0 : amax[30:23] - 8'd2;

    codes = 0;
    for (i = 0; i < 32; i = i + 1) begin
      magnitude = x[32 * i +: 31];
      e = magnitude[30:23] == 0 ? 1 : magnitude[30:23];
      sig = {2'b0, magnitude[30:23] != 0, magnitude[22:0]};
      for (j = 0; j < 23; j = j + 1)
        if (!sig[23] && sig != 0) begin
          sig = sig << 1;
          e = e - 1;
        end
      e = e - scale;
      if (sig == 0) e = -3;
      // Steps of a half up to 2, of 1 up to 4, of 2 above.
      shift = e < 0 ? 22 - e : 22;
      if (shift > 25) shift = 25;
      n = sig >> shift;
      half = (sig >> (shift - 1)) & 1;
      rest = (sig & ((26'd1 << (shift - 1)) - 26'd1)) != 0;
      if (half && (rest || n[0] || TIES_AWAY != 0)) n = n + 1;
      if (e > 2 || magnitude[30:23] == 8'hFF) n = 7;
      else if (e > 0) n = n + 2 * e;
      if (n > 7) n = 7;
      if (scale != 8'hFF) codes[4 * i +: 4] = {x[32 * i + 31], n[2:0]};
    end
  end
endmodule
