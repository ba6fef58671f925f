// Quantize along the last axis (rows.cuh).
#include "rows.cuh"
namespace mx {

// The first seven parameters are every quantizing kernel's; random is not used.
extern "C" __global__ void __launch_bounds__(MX_THREADS)
quantize_rows(const void* __restrict__ x, u8* __restrict__ codes, u8* __restrict__ scales, const float* __restrict__ tensor,
              const u32* random, u64 seed, u32 tensor_bits, u32 thread_count, u32 blocks_per_row, u32 multiplier, u32 shift,
              u32 tiles, u64 first_block, i64 pitch, u64 columns, i64 low, i64 high) {
  const Tensor t = Rules::derive_tensor(tensor_value<Rules>(tensor, tensor_bits));
  const rows::Arguments a{x, codes, scales, blocks_per_row, multiplier, shift, tiles, seed, first_block, pitch, columns, low, high};
#pragma unroll 1
  for (u32 turn = 0; turn < MX_TURNS; ++turn) rows::quantize_turn(a, t, (blockIdx.x * MX_TURNS + turn) * MX_THREADS, thread_count);
}
}  // namespace mx
