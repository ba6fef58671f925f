// Quantize blocks of 16 x 16: rows of 16 elements, of which 16, one under the other, share a scale.
//
// A warp takes 16 rows of eight tiles, a thread every fourth row of one: a row's elements are contiguous, and the tile's largest
// magnitude and scale are found without shared memory. Where a row has NaN, that row asks the profile what counts and is encoded
// element by element, as is every row under a scale that is not finite.
//
// Compiled with: what rows.cuh names, with MX_SOURCE 1 (rows of whole blocks, each 16-byte aligned) or 2 (any), MX_VALUES 16 and
// MX_TILED 0 or 1; MX_WIDE: a row has a multiple of four blocks, whose scales are written together.
#include "rows.cuh"
namespace mx {

constexpr int kTall = 4, kRowWords = 2 * Raw<kIn>::words8;  // rows of a thread; words of one
constexpr u32 kAcross = 8;                                  // tiles of a warp
static_assert(kBlock == 16 && kBits == 4 && rows::kValues == kBlock && !MX_TRANSFORMED, "16 x 16 elements of four bits");

__device__ __noinline__ u32 find_row_amax(Lanes<kIn> lanes) { return bits_of(find_amax<Rules>(lanes)); }

__device__ __noinline__ uint2 encode_row(Lanes<kIn> lanes, u32 byte, float amax, Random16 random, Tensor t) {
  const float sf = decode_scale<Rules::kScale>(byte);
  uint2 out = make_uint2(0, 0);
#pragma unroll 1
  for (int i = 0; i < kBlock; ++i)
    (i < 8 ? out.x : out.y) |= encode_lane<Rules, rows::kRandom>(lanes[i], sf, amax, random.byte(i), t) << (4 * (i & 7));
  return out;
}

// The first seven parameters are every quantizing kernel's; random is not used. pitch, rows and columns of x, in elements;
// tile_rows: of 16 rows, the last of which may end in rows that x does not have; tiles: in a row of 128x4 tiles. low, high: as in
// rows::Arguments.
extern "C" __global__ void __launch_bounds__(MX_THREADS)
quantize_square(const void* __restrict__ x, u8* __restrict__ codes, u8* __restrict__ scales, const float* __restrict__ tensor,
                const u32* random, u64 seed, u32 tensor_bits, i64 pitch, u64 rows, u64 columns, u32 blocks_per_row, u32 tile_rows,
                u32 tiles, i64 low, i64 high) {
  const Tensor t = Rules::derive_tensor(tensor_value<Rules>(tensor, tensor_bits));
  const u32 lane = threadIdx.x & 31, tile = (blockIdx.x * (MX_THREADS / 32) + threadIdx.x / 32) * kAcross + lane % kAcross;
  const u64 column = (u64)tile * kBlock, base = reinterpret_cast<u64>(x);
  const bool active = tile < blocks_per_row;
  for (u32 tile_row = blockIdx.y; tile_row < tile_rows; tile_row += gridDim.y) {
    const u64 first = (u64)tile_row * kBlock + lane / kAcross;
    auto lanes_of = [&](int j) {
      const u64 row = first + 4 * j, left = columns - column;
      return Lanes<kIn>{x, (i64)row * pitch + (i64)column, 1, !active || row >= rows ? 0 : left < kBlock ? (int)left : kBlock};
    };
    u32 words[kTall][kRowWords], magnitude = 0, with_nan = 0;
#pragma unroll
    for (int j = 0; j < kTall; ++j) {
      const Lanes<kIn> lanes = lanes_of(j);
#if MX_SOURCE == 2
      rows::load_loose(words[j], base + (u64)(lanes.first * kItem), (u32)lanes.count, base + (u64)low, base + (u64)high);
#else
      const uint4* source = reinterpret_cast<const uint4*>(base + (u64)(lanes.first * kItem));
#pragma unroll
      for (int i = 0; i < kRowWords / 4; ++i) {
        const uint4 v = active ? MX_LOAD(source + i) : make_uint4(0, 0, 0, 0);
        words[j][4 * i] = v.x, words[j][4 * i + 1] = v.y, words[j][4 * i + 2] = v.z, words[j][4 * i + 3] = v.w;
      }
#endif
    }
#pragma unroll
    for (int j = 0; j < kTall; ++j) {
      u32 of_row = find_largest<kIn, kRowWords>(words[j]);
      if (of_row > kInf) {
        of_row = find_row_amax(lanes_of(j));
        with_nan |= 1u << j;
      }
      magnitude = of_row > magnitude ? of_row : magnitude;
    }
#pragma unroll
    for (u32 d = kAcross; d < 32; d *= 2) {
      const u32 other = __shfl_xor_sync(0xFFFFFFFFu, magnitude, d);
      magnitude = other > magnitude ? other : magnitude;
    }
    const BlockScale s = find_scale<Rules>(magnitude, t);
    u32 bytes = s.byte;
    if (MX_WIDE) {
      bytes |= __shfl_down_sync(0xFFFFFFFFu, bytes, 1) << 8;
      bytes |= __shfl_down_sync(0xFFFFFFFFu, bytes, 2) << 16;
    }
    if (!active) continue;
#pragma unroll
    for (int j = 0; j < kTall; ++j) {
      const u64 row = first + 4 * j, block = row * blocks_per_row + tile, at = MX_TILED ? tile_offset(row, tile, tiles) : block;
      Random16 r = {{0, 0, 0, 0}};
      if (rows::kRandom != NO_RANDOM) r = philox(block, seed);
      uint2 out;
      if (s.ordinary && !(with_nan >> j & 1)) {
        out.x = encode8_block<Rules, kIn, rows::kRandom>(words[j], s, r.w[0], r.w[1]).lo;
        out.y = encode8_block<Rules, kIn, rows::kRandom>(words[j] + kRowWords / 2, s, r.w[2], r.w[3]).lo;
      } else {
        out = encode_row(lanes_of(j), s.byte, float_of(magnitude), r, t);
      }
      MX_STORE(reinterpret_cast<uint2*>(codes) + block, out);
      if (!MX_WIDE) scales[at] = (u8)s.byte;
      else if (tile % 4 == 0) *reinterpret_cast<u32*>(scales + at) = bytes;
    }
  }
}
}  // namespace mx
