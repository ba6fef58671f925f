// Four-bit affine codes, eight to a word, the first one lowest, to float32, float16 or bfloat16.
//
// A thread makes eight neighbouring elements at a time, MX_UNROLL times.
// Compiled with: MX_STORED (dtype of scales and biases: 0 float32, 1 float16, 2 bfloat16), MX_ZERO (zero points, uint8, in place
// of biases), MX_GROUP, MX_HELD, MX_FORM and MX_FUSED (the contract), MX_OUTPUT, MX_UNROLL, MX_THREADS, MX_STORE(p, v).
#include "affine_pairs.cuh"
namespace mx {

// What is rounded once to the dtype of the scales has instructions of its own.
constexpr bool kPairs = MX_FUSED && MX_FORM == WHOLE && MX_HELD == MX_STORED && MX_OUTPUT == MX_STORED && MX_STORED != FLOAT32;

extern "C" __global__ void __launch_bounds__(MX_THREADS)
dequantize_affine(const u32* __restrict__ codes, const void* __restrict__ scales, const void* __restrict__ offsets,
                  void* __restrict__ out, u32 eights) {
  constexpr u32 kEights = MX_GROUP / 8;
  const u32 first = blockIdx.x * (MX_THREADS * MX_UNROLL) + threadIdx.x;
  u32 held[MX_UNROLL], s[MX_UNROLL], o[MX_UNROLL];
  auto load = [](const void* from, u32 at) {
    return MX_STORED == FLOAT32 ? static_cast<const u32*>(from)[at] : (u32)static_cast<const u16*>(from)[at];
  };
#pragma unroll
  for (int i = 0; i < MX_UNROLL; ++i) {
    const u32 at = first + i * MX_THREADS, g = at < eights ? at : eights - 1;
    held[i] = __ldg(codes + g);
    s[i] = load(scales, g / kEights);
    o[i] = MX_ZERO ? (u32)static_cast<const u8*>(offsets)[g / kEights] : load(offsets, g / kEights);
  }
#pragma unroll
  for (int i = 0; i < MX_UNROLL; ++i) {
    const u32 g = first + i * MX_THREADS;
    if (kPairs) {
      u32 w[4];
      decode_neighbours<MX_ZERO, MX_STORED == FLOAT16 ? FLOAT16 : BFLOAT16>(
          held[i], make_group<MX_ZERO, MX_STORED == FLOAT16 ? FLOAT16 : BFLOAT16>(s[i], o[i]), w);
      if (g < eights) MX_STORE(static_cast<uint4*>(out) + g, make_uint4(w[0], w[1], w[2], w[3]));
      continue;
    }
    const float scale = as_float<MX_STORED>(s[i]), offset = MX_ZERO ? (float)o[i] : as_float<MX_STORED>(o[i]);
    float v[8];
    split8(held[i], v);
#pragma unroll
    for (int j = 0; j < 8; ++j) v[j] = affine_value<MX_ZERO, MX_HELD, MX_FORM, MX_FUSED>(v[j], scale, offset);
    if (g < eights) store8<MX_OUTPUT>(out, g, v);
  }
}
}  // namespace mx
