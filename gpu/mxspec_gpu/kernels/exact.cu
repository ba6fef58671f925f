// Both sides of an exact product: packed codes and block scales to float64, and which sums of their products are certain.
//
// Compiled with: MX_ELEMENT, MX_SCALE, MX_BLOCK (elements of a block), MX_TILED (scales in 128x4 tiles), MX_THREADS.
#include "exact.cuh"
namespace mx {

// values, magnitudes: float64 [rows, columns]; lowest: the exponent of the lowest bit among each run of 16 elements, int16
// [rows, columns / 16]. A thread makes eight elements; two threads have a run.
extern "C" __global__ void __launch_bounds__(MX_THREADS)
decode_exact(const u8* __restrict__ codes, const u8* __restrict__ scales, double* __restrict__ values,
             double* __restrict__ magnitudes, short* __restrict__ lowest, u32 eights, u32 blocks_per_row, u32 multiplier, u32 shift,
             u32 tiles) {
  const u32 g = blockIdx.x * MX_THREADS + threadIdx.x;
  const bool live = g < eights;
  const u32 at = live ? g : eights - 1, block = at / (MX_BLOCK / 8);
  u32 place = block;
  if (MX_TILED) {
    const u32 row = (u32)(((u64)block * multiplier) >> shift);
    place = tile_offset(row, block - row * blocks_per_row, tiles);
  }
  float v[8];
  decode8<MX_ELEMENT>(load_codes8<Format<MX_ELEMENT>::bits>(codes, at), v);
  const double scale = (double)decode_scale<MX_SCALE>(scales[place]);
  int low = kNoBit;
  double x[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    x[i] = (double)v[i] * scale;
    const int bit = lowest_bit(x[i]);
    low = bit < low ? bit : low;
  }
  const int other = __shfl_xor_sync(0xFFFFFFFFu, low, 1);
  low = other < low ? other : low;
  if (!live) return;
  double2* to = reinterpret_cast<double2*>(values) + 4 * (u64)g;
  double2* to_magnitudes = reinterpret_cast<double2*>(magnitudes) + 4 * (u64)g;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    to[i] = make_double2(x[2 * i], x[2 * i + 1]);
    to_magnitudes[i] = make_double2(fabs(x[2 * i]), fabs(x[2 * i + 1]));
  }
  if (g % 2 == 0) lowest[g / 2] = (short)low;
}

constexpr u32 kTile = 64, kRuns = 32;

// Which sums are certain. left [rows, runs], right [columns, runs]: lowest bits; values, magnitudes [rows, columns]: the two
// products as float64 added them. Writes the exponents of which all products of a sum are multiples, and the verdicts; a zero
// among values becomes +0. A block of 256 threads takes 64 x 64 sums, a thread 4 x 4, two columns a word.
extern "C" __global__ void __launch_bounds__(256)
certify_sums(const short* __restrict__ left, const short* __restrict__ right, double* __restrict__ values,
             const double* __restrict__ magnitudes, short* __restrict__ units, u8* __restrict__ certain, u32 rows, u32 columns,
             u32 runs) {
  __shared__ __align__(16) short a[kRuns][kTile + 4], b[kRuns][kTile + 4];
  const u32 row0 = blockIdx.y * kTile, column0 = blockIdx.x * kTile, tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  u32 held[4][2];
#pragma unroll
  for (int i = 0; i < 4; ++i) held[i][0] = held[i][1] = kNoBit * 0x00010001u;
  for (u32 first = 0; first < runs; first += kRuns) {
#pragma unroll
    for (u32 i = threadIdx.x; i < kTile * kRuns; i += 256) {
      const u32 run = i % kRuns, line = i / kRuns;
      const bool in = first + run < runs;
      a[run][line] = in && row0 + line < rows ? left[(u64)(row0 + line) * runs + first + run] : (short)kNoBit;
      b[run][line] = in && column0 + line < columns ? right[(u64)(column0 + line) * runs + first + run] : (short)kNoBit;
    }
    __syncthreads();
#pragma unroll 8
    for (u32 run = 0; run < kRuns; ++run) {
      const uint2 of_rows = *reinterpret_cast<const uint2*>(&a[run][4 * ty]), of_columns = *reinterpret_cast<const uint2*>(&b[run][4 * tx]);
      const u32 twice[4] = {permute(of_rows.x, 0, 0x1010), permute(of_rows.x, 0, 0x3232), permute(of_rows.y, 0, 0x1010),
                            permute(of_rows.y, 0, 0x3232)};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        held[i][0] = __viaddmin_s16x2(twice[i], of_columns.x, held[i][0]);
        held[i][1] = __viaddmin_s16x2(twice[i], of_columns.y, held[i][1]);
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const u32 row = row0 + 4 * ty + i;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const u32 column = column0 + 4 * tx + j;
      if (row >= rows || column >= columns) continue;
      const u64 at = (u64)row * columns + column;
      const int unit = (short)(held[i][j / 2] >> (16 * (j % 2)) & 0xFFFFu);
      values[at] += 0.0;
      units[at] = (short)unit;
      certain[at] = is_certain(magnitudes[at], unit);
    }
  }
}
}  // namespace mx
