// Products of four-bit affine codes, groups along the columns, and vectors in the dtype of the scales, as gemv.cuh has them. A weight
// is fma(q, s, b), or (q - z) * s, rounded once to that dtype.
//
// Compiled with: MX_STORED (1 float16, 2 bfloat16), MX_ZERO, MX_GROUP (a multiple of 32), and what gemv.cuh names.
#include "affine_pairs.cuh"
#include "gemv.cuh"
namespace mx {

struct AffineWeights {
  static constexpr bool kHalf = MX_STORED == FLOAT16, kMayBeRare = false;
  typedef Group Factor;
  struct Loaded {
    u32 scale, offset;
  };
  // Steps are whole groups, and rows of them are walked along; or the group's number is found anew.
  static constexpr bool kWalks = kChunk % MX_GROUP == 0;
  static constexpr int kOffset = MX_ZERO ? 1 : 2;  // bytes
  struct Row {
    const u16* scale;
    const u8* offset;
  };
  // With MX_COPY: a turn is whole groups.
  static constexpr int kGroups = MX_GROUP <= 2 * kChunk ? 2 * kChunk / MX_GROUP : 1, kWidth = kGroups * kOffset < 4 ? 4 : kGroups * kOffset,
                       kBytes = kGroups * 2 + kWidth;
  typedef Row Source;
  const u16* scales;
  const u8* offsets;
  u32 groups;
  u32 odd;  // where offsets of two turns are copied, this team's are the second of them

  __device__ __forceinline__ Source find(u32 row, u32 column) const {
    Source found = place(row, column);
    found.offset -= odd;
    return found;
  }
  __device__ __forceinline__ void copy(u8* to, u32 row, const Source& from, u32 column, bool live) const {
    copy_ahead<kGroups * 2>(to + row * (kGroups * 2), from.scale + column / MX_GROUP, live);
    copy_ahead<kWidth>(to + 32 * kGroups * 2 + row * kWidth, from.offset + column / MX_GROUP * kOffset, live);
  }
  __device__ __forceinline__ Loaded take(const u8* held, u32 row, u32 quarter) const {
    const u32 group = quarter * 32 / MX_GROUP;
    const u8* o = held + 32 * kGroups * 2 + row * kWidth + odd + group * kOffset;
    return {reinterpret_cast<const u16*>(held)[row * kGroups + group], MX_ZERO ? (u32)*o : (u32)*reinterpret_cast<const u16*>(o)};
  }

  __device__ __forceinline__ Row place(u32 row, u32 column) const {
    const u64 at = (u64)row * groups + (kWalks ? column / MX_GROUP : 0);
    Row found = {scales + at, offsets + at * kOffset};
    hold(found.scale);
    hold(found.offset);
    return found;
  }
  static __device__ __forceinline__ void advance(Row& row) {
    if (kWalks) row.scale += kTurn / MX_GROUP, row.offset += kTurn / MX_GROUP * kOffset;
  }
  // Lanes beyond the columns get scale and offset zero.
  __device__ __forceinline__ Loaded load(const Row& row, u32 column, u32 ahead, bool live) const {
    const u32 at = kWalks ? find_column(ahead) / MX_GROUP : (column + find_column(ahead)) / MX_GROUP;
    return {live ? (u32)__ldg(row.scale + at) : 0u,
            !live ? 0u : MX_ZERO ? (u32)__ldg(row.offset + at) : (u32)__ldg(reinterpret_cast<const u16*>(row.offset) + at)};
  }
  __device__ __forceinline__ bool prepare(const Loaded loaded[kOfLane], Factor factors[kOfLane]) const {
#pragma unroll
    for (int r = 0; r < kOfLane; ++r) factors[r] = make_group<MX_ZERO, MX_STORED>(loaded[r].scale, loaded[r].offset);
    return false;
  }
  template <bool Rare>
  static __device__ __forceinline__ void complete(Factor&) {}
  template <bool Rare>
  static __device__ __forceinline__ void decode(u32 codes, const Factor& g, int, u32 w[4]) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if (MX_STORED == BFLOAT16) {
        w[j] = raised_values<MX_ZERO, BFLOAT16>(((codes >> (4 * j)) & 0x000F000Fu) | 0x43004300u, g);
        continue;
      }
      const u32 source = j < 2 ? codes : codes >> 8;
      w[j] = j % 2 ? raised_values16<MX_ZERO>((source & 0x00F000F0u) | 0x64006400u, g)
                   : raised_values<MX_ZERO, FLOAT16>((source & 0x000F000Fu) | 0x64006400u, g);
    }
  }
  static __device__ __forceinline__ float finish(float sum) { return sum; }
};

// codes [rows, columns / 2], scales and offsets [rows, columns / MX_GROUP]. x [batch, columns], y [batch, rows].
// alpha: one float32 in memory, or null for the bits given.
extern "C" __global__ void __launch_bounds__(kThreads, MX_BLOCKS_OF_SM)
gemv_affine(const u8* __restrict__ codes, const u16* __restrict__ scales, const void* __restrict__ offsets, const u16* __restrict__ x,
            void* __restrict__ y, const float* __restrict__ alpha, u32 alpha_bits, u32 rows, u32 columns, u32 batch) {
  const u32 odd = MX_COPY && AffineWeights::kGroups * AffineWeights::kOffset < 4 ? threadIdx.x / (32 * MX_WARPS) % 2 * 2 : 0;
  multiply_vectors(AffineWeights{scales, static_cast<const u8*>(offsets), columns / MX_GROUP, odd}, codes, x, y, alpha, alpha_bits, rows, columns, batch);
}
}  // namespace mx
