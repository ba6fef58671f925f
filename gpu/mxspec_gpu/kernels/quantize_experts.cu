// Rows sorted by expert: all of them in one launch (rows.cuh), each expert's with its own tensor scale and its own tiles of scales.
//
// Compiled with: what rows.cuh names, with MX_SOURCE 0 and MX_TILED up to 2.
#include "largest.cuh"
#include "rows.cuh"
namespace mx {

// Where an expert begins: among the blocks of threads, the rows, and the bytes of the scales.
struct Start {
  u64 block, row, scale;
};

constexpr u32 row_vectors(u32 blocks_per_row) { return blocks_per_row * kBlock * kItem / 16; }

// The expert of a block of threads; an expert without rows has none. starts: of all experts, and the end.
__device__ __forceinline__ u32 find_expert(const Start* __restrict__ starts, u32 experts) {
  __shared__ u32 found;
  for (u32 e = threadIdx.x; e < experts; e += MX_THREADS)
    if (starts[e].block <= blockIdx.x && blockIdx.x < starts[e + 1].block) found = e;
  __syncthreads();
  return found;
}

// tensors: of every expert, or null.
extern "C" __global__ void __launch_bounds__(MX_THREADS)
quantize_experts(const u8* __restrict__ x, u8* __restrict__ codes, u8* __restrict__ scales, const float* __restrict__ tensors,
                 const Start* __restrict__ starts, u32 experts, u32 blocks_per_row, u32 multiplier, u32 shift, u32 tiles) {
  const u32 expert = find_expert(starts, experts);
  const Start first = starts[expert], end = starts[expert + 1];
  const Tensor t = Rules::derive_tensor(tensor_value<Rules>(tensors ? tensors + expert : nullptr, 0));
  const u64 columns = (u64)blocks_per_row * kBlock;
  const rows::Arguments a{x + first.row * columns * kItem, codes + first.row * (columns * kBits / 8), scales + first.scale,
                          blocks_per_row, multiplier, shift, tiles, 0, 0, 0, columns, 0, 0};
  rows::quantize_turn(a, t, (u32)(blockIdx.x - first.block) * MX_THREADS, (u32)((end.row - first.row) * (columns / rows::kValues)));
}

// The largest magnitude of every expert, as float32 bits that are zeroed before.
extern "C" __global__ void __launch_bounds__(MX_THREADS)
experts_amax(const uint4* __restrict__ x, const Start* __restrict__ starts, u32* __restrict__ results, u32 experts, u32 blocks_per_row) {
  const u32 expert = find_expert(starts, experts);
  const Start first = starts[expert], end = starts[expert + 1];
  const u64 vectors = row_vectors(blocks_per_row), last = end.row * vectors;
  u64 i = first.row * vectors + (blockIdx.x - first.block) * (MX_THREADS * rows::kLoads) + threadIdx.x;
  u32 held = 0;
#pragma unroll
  for (int j = 0; j < rows::kLoads; ++j, i += MX_THREADS)
    if (i < last) held = fold4(held, __ldg(x + i));
  raise_largest(find_magnitude<kIn>(held), results + expert);
}

// In place, of every expert.
extern "C" __global__ void derive_natives(float* values) { values[blockIdx.x] = native_of(values[blockIdx.x]); }

}  // namespace mx
