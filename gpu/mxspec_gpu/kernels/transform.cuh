// The random Hadamard transform of 16 neighbouring elements, in float32: a matrix of signs times 1/4, held to
// mxspec_gpu.transform's definition.
#pragma once
#include "fast_block.cuh"

namespace mx {

// In place: element i times 1/4 or, where bit i of Signs is set, -1/4 (exact: the elements are of 16 bits), then four rounds
// of sums and differences of elements 1, 2, 4 and 8 apart, each rounded once. The product of the first round's second
// operand is part of its sum, which changes nothing, since the product is exact.
template <int Signs>
MX_HD void hadamard16(float v[16]) {
#pragma unroll
  for (int i = 0; i < 16; i += 2) {
    const float first = fmul(v[i], Signs >> i & 1 ? -0.25f : 0.25f), c = Signs >> (i + 1) & 1 ? -0.25f : 0.25f, second = v[i + 1];
    v[i] = ffma(second, c, first);
    v[i + 1] = ffma(second, -c, first);
  }
#pragma unroll
  for (int d = 2; d < 16; d *= 2) {
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      if (i & d) continue;
      const float a = v[i], b = v[i + d];
      v[i] = fadd(a, b);
      v[i + d] = fsub(a, b);
    }
  }
}

// Sixteen values as words of `To`, each rounded once.
template <int To>
MX_HD void pack16(const float v[16], u32* words) {
  if (To == FLOAT32) {
#pragma unroll
    for (int i = 0; i < 16; ++i) words[i] = bits_of(v[i]);
  } else {
#pragma unroll
    for (int i = 0; i < 8; ++i) words[i] = To == FLOAT16 ? pack_f16x2(v[2 * i], v[2 * i + 1]) : pack_bf16x2(v[2 * i], v[2 * i + 1]);
  }
}

// One 16-bit element of a word as float32.
template <int In>
MX_HD float half_of(u32 word, int upper) {
  if (In == FLOAT16) return from_f16_number(upper ? word >> 16 : word & 0xFFFFu);
  return float_of(upper ? word & 0xFFFF0000u : word << 16);
}

// The lanes of a block after the transform, for the plain way: each asks for its sixteen anew.
template <int In, int To, int Signs, class L>
struct TransformedLanes {
  L lanes;
  MX_HD float operator[](int i) const {
    float v[16];
    u32 bits = 0;
#pragma unroll
    for (int j = 0; j < 16; ++j) v[j] = lanes[(i & ~15) + j];
    hadamard16<Signs>(v);
    // By masks: an index that is not known would take the sixteen to memory.
#pragma unroll
    for (int j = 0; j < 16; ++j) bits |= bits_of(v[j]) & (0u - (u32)((i & 15) == j));
    const float x = float_of(bits);
    if (To == FLOAT32) return x;
    return To == FLOAT16 ? from_f16(pack_f16x2(x, 0.0f) & 0xFFFFu) : from_bf16(pack_bf16x2(x, 0.0f) & 0xFFFFu);
  }
};

}  // namespace mx
