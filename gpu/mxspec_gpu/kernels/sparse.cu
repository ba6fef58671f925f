// Dequantize sparse e2m1 codes with block scales to dense float32, float16 or bfloat16.
//
// A thread makes eight neighbouring elements at a time, MX_UNROLL times, so that reads and writes of a warp are contiguous.
// Compiled with: the profile's Rules, MX_OUTPUT (0 float32, 1 float16, 2 bfloat16), MX_PAIRS (four of eight, in pairs),
// MX_UNROLL, MX_THREADS, MX_STORE(p, v) of 16 bytes.
#include "sparse.cuh"
namespace mx {
#include "rules.generated.cuh"

// kept: packed codes of half of the elements; metadata: packed nibbles, one for each group of four (pairs: eight) elements;
// scales: of blocks of the dense elements. A group whose nibble is none of the six legal ones is NaN.
extern "C" __global__ void __launch_bounds__(MX_THREADS)
dequantize_sparse(const u16* __restrict__ kept, const u8* __restrict__ metadata, const u8* __restrict__ scales,
                  void* __restrict__ out, const float* __restrict__ tensor, u32 tensor_bits, u32 eights) {
  const Tensor t = Rules::derive_tensor(tensor_value<Rules>(tensor, tensor_bits));
  const u32 start = blockIdx.x * (MX_THREADS * MX_UNROLL) + threadIdx.x;
  u32 codes[MX_UNROLL], nibbles[MX_UNROLL], bytes[MX_UNROLL];
#pragma unroll
  for (int i = 0; i < MX_UNROLL; ++i) {
    const u32 at = start + i * MX_THREADS, g = at < eights ? at : eights - 1;
    codes[i] = __ldg(kept + g);
    nibbles[i] = MX_PAIRS ? (u32)__ldg(metadata + g / 2) >> (g % 2 * 4) : (u32)__ldg(metadata + g);
    bytes[i] = __ldg(scales + g / (Rules::kBlock / 8));
  }
#pragma unroll
  for (int i = 0; i < MX_UNROLL; ++i) {
    const u32 g = start + i * MX_THREADS;
    bool legal[2];
    float v[8];
    decode8_e2m1(spread_eight<MX_PAIRS>(codes[i], nibbles[i], legal), v);
    const float scale = decode_scale<Rules::kScale>(bytes[i]);
#pragma unroll
    for (int j = 0; j < 8; ++j) v[j] = legal[j / 4] ? Rules::value(v[j], scale, t) : float_of(kNan);
    if (g < eights) store8<MX_OUTPUT>(out, g, v);
  }
}
}  // namespace mx
