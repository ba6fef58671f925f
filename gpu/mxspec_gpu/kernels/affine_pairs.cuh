// Affine numbers two at a time, in float16 or bfloat16: q * s + b, or (q - z) * s, rounded once by the chip's own instructions.
#pragma once
#include "affine.cuh"

namespace mx {

#if MX_CHIP
// Two lanes, rounded once, subnormals kept.
template <int F>
__device__ __forceinline__ u32 fma2(u32 a, u32 b, u32 c) {
  if (F == BFLOAT16) return fma_bf16x2(a, b, c);
  u32 r;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
  return r;
}
template <int F>
__device__ __forceinline__ u32 mul2(u32 a, u32 b) {
  if (F == BFLOAT16) return mul_bf16x2(a, b);
  u32 r;
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
  return r;
}

// A group's numbers, each twice in a word: the scale; the bias, or what a lane lacks of q - z: 1024 + z and 64 + z in float16,
// 128 + z in bfloat16, negative. All are whole numbers that the dtype has.
struct Group {
  u32 scale, offset, offset16;
};
template <bool Zero, int F>
__device__ __forceinline__ Group make_group(u32 scale, u32 offset) {
  Group g;
  g.scale = scale * 0x00010001u;
  if (!Zero) {
    g.offset = offset * 0x00010001u, g.offset16 = 0;
  } else if (F == BFLOAT16) {
    g.offset = (0xC300u + offset) * 0x00010001u, g.offset16 = 0;
  } else {
    g.offset = (0xE400u + offset) * 0x00010001u, g.offset16 = (0xD400u + (offset << 4)) * 0x00010001u;
  }
  return g;
}

// A code's bits, put below the leading bit of 1024 (of 128 in bfloat16), are that number plus the code. Values of two of them.
template <bool Zero, int F>
__device__ __forceinline__ u32 raised_values(u32 raised, const Group& g) {
  const u32 one = F == BFLOAT16 ? 0x3F803F80u : 0x3C003C00u, lack = F == BFLOAT16 ? 0xC300C300u : 0xE400E400u;
  const u32 q = fma2<F>(raised, one, Zero ? g.offset : lack);
  return Zero ? mul2<F>(q, g.scale) : fma2<F>(q, g.scale, g.offset);
}
// The same of codes four bits higher in float16: 1024 + 16 q, a sixteenth of which is 64 + q.
template <bool Zero>
__device__ __forceinline__ u32 raised_values16(u32 raised, const Group& g) {
  const u32 q = fma2<FLOAT16>(raised, 0x2C002C00u, Zero ? g.offset16 : 0xD400D400u);
  return Zero ? mul2<FLOAT16>(q, g.scale) : fma2<FLOAT16>(q, g.scale, g.offset);
}

// Words of the values of neighbouring codes: (0, 1), (2, 3), (4, 5), (6, 7).
template <bool Zero, int F>
__device__ __forceinline__ void decode_neighbours(u32 codes, const Group& g, u32 w[4]) {
  const u32 leading = F == BFLOAT16 ? 0x43004300u : 0x64006400u;
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const u32 two = codes >> (8 * j);
    w[j] = raised_values<Zero, F>((two & 0xFu) | (two << 12 & 0xF0000u) | leading, g);
  }
}
#endif

}  // namespace mx
