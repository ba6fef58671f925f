// Quantize any two-dimensional view, a thread a block, the plain way: ragged tails (padded with zeros), strides of any
// size and sign, unaligned data, explicit random words. Also what the fast kernels are compared with.
//
// Compiled with: the profile's Rules, MX_INPUT, MX_RANDOM (0 none, 1 words of 32 bits, 2 words whose low 8 bits count,
// 3 bytes from a counter), MX_TILED (1: scales in 128x4 tiles; 4: column after column, each of whole fours).
#include "block.cuh"
namespace mx {
#include "rules.generated.cuh"

// x[row * row_stride + column * column_stride], strides in elements; blocks lie along columns. random: a word for each
// element of the logical tensor, row by row.
extern "C" __global__ void quantize_any(const void* __restrict__ x, u8* __restrict__ codes, u8* __restrict__ scales,
                                        const float* __restrict__ tensor, const u32* __restrict__ random, u64 seed, u32 tensor_bits,
                                        i64 row_stride, i64 column_stride, u64 rows, u64 columns, u64 blocks_per_row) {
  const u64 blocks = rows * blocks_per_row;
  const Tensor t = Rules::derive_tensor(tensor_value<Rules>(tensor, tensor_bits));
  for (u64 block = (u64)blockIdx.x * blockDim.x + threadIdx.x; block < blocks; block += (u64)gridDim.x * blockDim.x) {
    const u64 row = block / blocks_per_row, column = block % blocks_per_row * Rules::kBlock;
    const u64 left = columns - column;
    const int count = left < Rules::kBlock ? (int)left : Rules::kBlock;
    const Lanes<MX_INPUT> lanes{x, (i64)row * row_stride + (i64)column * column_stride, column_stride, count};
    auto word = [&](int i) -> u32 {
      if (MX_RANDOM == NO_RANDOM) return 0;
      if (MX_RANDOM != RANDOM_COUNTER) return i < count ? random[row * columns + column + i] : 0u;
      const u64 at = block * Rules::kBlock + i;
      return philox(at >> 4, seed).byte((u32)at & 15);
    };
    const u32 byte = quantize_block<Rules, MX_RANDOM>(lanes, word, t, codes + block * Packed<Rules>::bytes);
    const u64 at = block % blocks_per_row;
    const u64 to = MX_TILED == 4 ? at * ((rows + 3) / 4 * 4) + row
                   : MX_TILED    ? tile_offset(row, (u32)at, (u32)((blocks_per_row + 3) / 4))
                                 : block;
    write_scale<Rules::kScale>(scales, to, byte);
  }
}
}  // namespace mx
