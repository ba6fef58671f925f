// Products of e2m1 codes with block scales and bfloat16 vectors, as gemv.cuh has them. A weight times its scale is exact in bfloat16.
//
// A code's magnitude, moved into the exponent and first mantissa bit of a bfloat16, is its value times 2**-126, subnormals
// included; the block's factor brings it back.
//
// Compiled with: MX_SCALE (E8M0 or UE4M3), MX_BLOCK (32 or 16), and what gemv.cuh names.
#include "fast_block.cuh"
#include "gemv.cuh"
namespace mx {

struct BlockWeights {
  static constexpr bool kHalf = false, kMayBeRare = MX_SCALE == E8M0;
  static constexpr int kScales = 32 / MX_BLOCK;
  typedef const u8* Row;
  typedef u32 Loaded;
  // Twice the bfloat16 that brings magnitudes times 2**-126 to values, as far as it goes; `more`: what is left, of E8M0 scales
  // above one and NaN.
  struct Factor {
    u32 twice[kScales], more;
  };
  static constexpr int kBytes = 2 * kChunk / MX_BLOCK;
  typedef const u8* Source;
  const u8* scales;
  u32 columns;

  __device__ __forceinline__ Source find(u32 row, u32 column) const { return place(row, column); }
  __device__ __forceinline__ void copy(u8* to, u32 row, Source from, u32 column, bool live) const {
    copy_ahead<kBytes>(to + row * kBytes, from + column / MX_BLOCK, live);
  }
  __device__ __forceinline__ Loaded take(const u8* held, u32 row, u32 quarter) const {
    const u8* s = held + row * kBytes + quarter * kScales;
    return kScales == 2 ? (u32)*reinterpret_cast<const u16*>(s) : (u32)*s;
  }

  __device__ __forceinline__ Row place(u32 row, u32 column) const {
    Row at = scales + ((u64)row * columns + column) / MX_BLOCK;
    hold(at);
    return at;
  }
  static __device__ __forceinline__ void advance(Row& row) { row += kTurn / MX_BLOCK; }
  __device__ __forceinline__ Loaded load(Row row, u32, u32 ahead, bool live) const {
    const u8* s = row + find_column(ahead) / MX_BLOCK;
    return !live ? 0u : kScales == 2 ? (u32)__ldg(reinterpret_cast<const u16*>(s)) : (u32)__ldg(s);
  }
  __device__ __forceinline__ bool prepare(const Loaded loaded[kOfLane], Factor factors[kOfLane]) const {
    u32 any = 0;
#pragma unroll
    for (int r = 0; r < kOfLane; ++r) {
      const u32 byte = loaded[r];
      if (MX_SCALE == E8M0) {
        factors[r].twice[0] = byte;
        any |= byte;
      } else {
        // The largest e4m3 scale times 2**126 would be too large for a bfloat16.
#if MX_HAS_FP8_CVT
        const u32 two = e4m3x2_to_f16x2(byte & 0x7F7Fu);
        const float values[2] = {from_f16_number(two & 0xFFFFu), from_f16_number(two >> 16)};
#else
        const float values[2] = {decode_scale<UE4M3>(byte & 0xFFu), decode_scale<UE4M3>(byte >> 8)};
#endif
#pragma unroll
        for (int b = 0; b < kScales; ++b) factors[r].twice[b] = twice_bf16(fmul(values[b], 0x1p118f));
      }
    }
    return (any & 0x80u) != 0;
  }
  // The rest of the work, where the warp's lanes are agreed on Rare.
  template <bool Rare>
  static __device__ __forceinline__ void complete(Factor& factor) {
    if (MX_SCALE != E8M0) return;
    // 2**126 times the scale, at most 2**126; and what is left.
    const u32 byte = factor.twice[0];
    factor.twice[0] = (Rare && byte > 127 ? 127 : byte) * 0x00800080u + 126 * 0x00800080u;
    if (Rare) factor.more = (byte == 0xFF ? 0x7FC0u : byte > 127 ? byte << 7 : 0x3F80u) * 0x00010001u;
  }
  template <bool Rare>
  static __device__ __forceinline__ void decode(u32 codes, const Factor& factor, int column, u32 w[4]) {
    const u32 upper = codes >> 8;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      // The sign's place and the magnitude's, by one multiplication; what else comes along is cleared.
      const u32 pair = (j < 2 ? codes : upper) & (j % 2 ? 0x00F000F0u : 0x000F000Fu);
      const u32 moved = pair * (j % 2 ? (1u << 8 | 1u << 2) : (1u << 12 | 1u << 6));
      w[j] = mul_bf16x2(moved & 0x81C081C0u, factor.twice[column / MX_BLOCK]);
      if (Rare) w[j] = mul_bf16x2(w[j], factor.more);
    }
  }
  static __device__ __forceinline__ float finish(float sum) { return MX_SCALE == UE4M3 ? fmul(sum, 256.0f) : sum; }
};

// codes [rows, columns / 2], scales [rows, columns / MX_BLOCK]; columns a multiple of 32. x [batch, columns], y [batch, rows].
// alpha: one float32 in memory, or null for the bits given.
extern "C" __global__ void __launch_bounds__(kThreads, MX_BLOCKS_OF_SM)
gemv(const u8* __restrict__ codes, const u8* __restrict__ scales, const u16* __restrict__ x, void* __restrict__ y,
     const float* __restrict__ alpha, u32 alpha_bits, u32 rows, u32 columns, u32 batch) {
  multiply_vectors(BlockWeights{scales, columns}, codes, x, y, alpha, alpha_bits, rows, columns, batch);
}
}  // namespace mx
