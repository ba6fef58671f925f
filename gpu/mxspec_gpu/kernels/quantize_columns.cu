// Quantize along the first axis of a matrix (columns.cuh).
#include "columns.cuh"
namespace mx {

// The first seven parameters are every quantizing kernel's; random is not used.
extern "C" __global__ void __launch_bounds__(columns::kThreads, columns::kBlocksOfSm)
quantize_columns(const void* __restrict__ x, u8* __restrict__ codes, u8* __restrict__ scales, const float* __restrict__ tensor,
                 const u32* random, u64 seed, u32 tensor_bits, i64 pitch, u32 rows, u32 padded, u32 columns, u32 tiles) {
  using namespace columns;
  const Tensor t = Rules::derive_tensor(tensor_value<Rules>(tensor, tensor_bits));
  const u32 down = (rows + kRows - 1) / kRows, group = blockIdx.x / (down * kGroup), rest = blockIdx.x - group * (down * kGroup);
  const u32 column0 = (group * kGroup + rest % kGroup) * kColumns;
  if (column0 < columns) quantize_tile({x, codes, scales, pitch, rows, padded, columns, tiles, seed}, t, rest / kGroup * kRows, column0);
}
}  // namespace mx
