// Dequantize packed codes along the last axis to float32, float16 or bfloat16.
//
// A thread makes eight neighbouring elements at a time, MX_UNROLL times, so that reads and writes of a warp are contiguous;
// its groups lie MX_STEP groups apart (32: a warp's follow each other; MX_THREADS: a block's do).
// Compiled with: the profile's Rules, MX_OUTPUT (0 float32, 1 float16, 2 bfloat16), MX_TILED (1: scales in 128x4 tiles; 4: column by
// column, `tiles` scales from one to the next), MX_UNROLL, MX_THREADS,
// MX_STORE(p, v) of 16 bytes, MX_GATHER (rows that `ids` names; without it there are none).
#include "decode8.cuh"
namespace mx {
#include "rules.generated.cuh"

constexpr int kOut = MX_OUTPUT, kElement = Rules::kElement, kBits = Format<kElement>::bits, kEightsOfBlock = Rules::kBlock / 8;

// eights: groups of eight elements; a block's are consecutive. ids: of MX_GATHER, rows of a table of `rows`; a row of any other
// number is NaN.
extern "C" __global__ void __launch_bounds__(MX_THREADS)
dequantize(const u8* __restrict__ codes, const u8* __restrict__ scales, void* __restrict__ out, const float* __restrict__ tensor,
           u32 eights, u32 blocks_per_row, u32 multiplier, u32 shift, u32 tiles, u32 tensor_bits, const i64* __restrict__ ids, u64 rows) {
  const Tensor t = Rules::derive_tensor(tensor_value<Rules>(tensor, tensor_bits));
  const u32 first = blockIdx.x * (MX_THREADS * MX_UNROLL) + threadIdx.x % MX_STEP + threadIdx.x / MX_STEP * (MX_STEP * MX_UNROLL);
  Codes8<kBits> held[MX_UNROLL];
  u32 bytes[MX_UNROLL];
#if MX_GATHER
  bool known[MX_UNROLL];
#endif
#pragma unroll
  for (int i = 0; i < MX_UNROLL; ++i) {
    u32 g = first + i * MX_STEP;
    g = g < eights ? g : eights - 1;
    u32 block = g / kEightsOfBlock;
#if MX_GATHER
    const u32 to = (u32)(((u64)block * multiplier) >> shift), column = block - to * blocks_per_row;
    const i64 id = ids[to];
    known[i] = (u64)id < rows;
    const u32 row = known[i] ? (u32)id : 0u;
    block = row * blocks_per_row + column;
    g = block * kEightsOfBlock + g % kEightsOfBlock;
#endif
    held[i] = load_codes8<kBits>(codes, g);
    if (MX_TILED) {
#if !MX_GATHER
      const u32 row = (u32)(((u64)block * multiplier) >> shift);
#endif
      const u32 at = block - row * blocks_per_row;
      bytes[i] = read_scale<Rules::kScale>(scales, MX_TILED == 4 ? (u64)at * tiles + row : tile_offset(row, at, tiles));
    } else {
      bytes[i] = read_scale<Rules::kScale>(scales, block);
    }
  }
#pragma unroll
  for (int i = 0; i < MX_UNROLL; ++i) {
    const u32 g = first + i * MX_STEP;
    float v[8];
    decode8<kElement>(held[i], v);
    const float sf = decode_scale<Rules::kScale>(bytes[i]);
#pragma unroll
    for (int j = 0; j < 8; ++j) v[j] = Rules::value(v[j], sf, t);
#if MX_GATHER
    if (!known[i]) {
#pragma unroll
      for (int j = 0; j < 8; ++j) v[j] = float_of(kNan);
    }
#endif
    if (g < eights) store8<kOut>(out, g, v);
  }
}
}  // namespace mx
