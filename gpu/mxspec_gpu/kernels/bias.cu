// What a product lacks after its sums: a bias on every row, and one rounding.
//
// Compiled with: MX_OUTPUT (0 float32, 1 float16, 2 bfloat16: of the bias and the result).
#include "affine.cuh"
namespace mx {

// sums float32 [rows, columns], bias [columns], out [rows, columns].
extern "C" __global__ void __launch_bounds__(256)
add_bias(const float* __restrict__ sums, const void* __restrict__ bias, void* __restrict__ out, u64 count, u32 columns) {
  for (u64 i = (u64)blockIdx.x * 256 + threadIdx.x; i < count; i += (u64)gridDim.x * 256) {
    const u32 column = (u32)(i % columns);
    const u32 bits = MX_OUTPUT == FLOAT32 ? static_cast<const u32*>(bias)[column] : static_cast<const u16*>(bias)[column];
    const float v = fadd(sums[i], as_float<MX_OUTPUT>(bits));
    if (MX_OUTPUT == FLOAT32) static_cast<float*>(out)[i] = v;
    else static_cast<u16*>(out)[i] = (u16)(MX_OUTPUT == FLOAT16 ? pack_f16x2(v, 0.0f) : pack_bf16x2(v, 0.0f));
  }
}
}  // namespace mx
