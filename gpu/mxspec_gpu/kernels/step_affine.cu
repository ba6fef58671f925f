// A teaching step: the product with four-bit affine weights in the thread model of the tiny LLM course, a thread an output. Sums are
// float32, column after column, so that the result has one right answer. gemv_affine.cu is what it leads to.
//
// Compiled with: MX_STORED (dtype of activations, scales, biases and the result: 1 float16, 2 bfloat16), MX_ZERO (zero points, uint8,
// in place of biases), MX_GROUP, MX_FORM and MX_FUSED (a contract in float32).
#include "affine.cuh"
namespace mx {

constexpr u32 kAcross = 32, kDown = 8;  // outputs of a block of threads: rows of x, rows of the weights

// x [m, n], codes [k, n / 8] words, scales and offsets [k, n / MX_GROUP], y [m, k].
extern "C" __global__ void affine_matmul_naive(const u16* __restrict__ x, const u32* __restrict__ codes, const u16* __restrict__ scales,
                                               const void* __restrict__ offsets, u16* __restrict__ y, u32 m, u32 n, u32 k) {
  const u32 i = blockIdx.y * kAcross + threadIdx.x % kAcross, row = blockIdx.x * kDown + threadIdx.x / kAcross;
  if (i >= m || row >= k) return;
  const u32 groups = n / MX_GROUP;
  float sum = 0.0f;
  for (u32 g = 0; g < groups; ++g) {
    const u64 at = (u64)row * groups + g;
    const float s = as_float<MX_STORED>(scales[at]);
    const float o = MX_ZERO ? (float)static_cast<const u8*>(offsets)[at] : as_float<MX_STORED>(static_cast<const u16*>(offsets)[at]);
    for (u32 p = 0; p < MX_GROUP / 8; ++p) {
      const u32 word = codes[at * (MX_GROUP / 8) + p], first = g * MX_GROUP + p * 8;
#pragma unroll
      for (u32 j = 0; j < 8; ++j) {
        const float w = affine_value<MX_ZERO, FLOAT32, MX_FORM, MX_FUSED>((float)(word >> (4 * j) & 15u), s, o);
        sum = fadd(sum, fmul(as_float<MX_STORED>(x[(u64)i * n + first + j]), w));
      }
    }
  }
  y[(u64)i * k + row] = (u16)(MX_STORED == FLOAT16 ? pack_f16x2(sum, 0.0f) : pack_bf16x2(sum, 0.0f));
}
}  // namespace mx
