// A teaching step: quantizing rows of 16-bit numbers to e2m1 blocks in the thread model of the LightX2V notes. A thread takes eight
// neighbours, two threads (nvfp4) or four (mxfp4) share a scale by shuffles, a block of threads takes rows in turn.
// quantize_rows.cu is what it leads to.
//
// Compiled with: the profile's Rules, MX_INPUT (1 float16, 2 bfloat16), MX_TILED (scales in 128x4 tiles).
#include "rules.cuh"
namespace mx {

constexpr u32 kLanes = kBlock / 8;  // threads that share a scale
static_assert(Rules::kElement == E2M1 && kIn != FLOAT32, "the step is of 16-bit numbers to four-bit codes");

// What find_amax asks of NaN, for this thread's part of a block: 1 there is one, 2 not all are, 4 not all at odd places are.
__device__ __forceinline__ u32 find_nans(const u32 words[4]) {
  constexpr u32 kInfinity = kIn == BFLOAT16 ? 0x7F80u : 0x7C00u;
  u32 found = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const bool even = (words[i] & 0x7FFFu) > kInfinity, odd = (words[i] >> 16 & 0x7FFFu) > kInfinity;
    found |= (even || odd ? 1u : 0u) | (even && odd ? 0u : 2u) | (odd ? 0u : 4u);
  }
  return found;
}

// eights: groups of eight elements in a row, a multiple of kLanes. Threads of a block: a multiple of 32, or no more than `eights`.
extern "C" __global__ void __launch_bounds__(256, 6)
quantize_grid_stride(const uint4* __restrict__ x, u32* __restrict__ codes, u8* __restrict__ scales, const float* __restrict__ tensor,
                     u32 tensor_bits, u32 rows, u32 eights, u32 tiles) {
  const Tensor t = Rules::derive_tensor(tensor_value<Rules>(tensor, tensor_bits));
  const u32 lane = threadIdx.x & 31;
  for (u32 row = blockIdx.x; row < rows; row += gridDim.x) {
    for (u32 eight = threadIdx.x; eight < eights; eight += blockDim.x) {
      // In a row's last turn some lanes of a warp have left the loop: a shuffle names those that are still here. They come in
      // whole groups of kLanes, so that no lane asks one that has left.
      const u32 left = eights - (eight - lane), mask = left >= 32 ? 0xFFFFFFFFu : (1u << left) - 1u;
      const u64 at = (u64)row * eights + eight;
      const uint4 v = x[at];
      const u32 words[4] = {v.x, v.y, v.z, v.w};
      u32 held = 0;
#pragma unroll
      for (int i = 0; i < 4; ++i) held = fold_magnitude<kIn, true>(held, words[i]);
      u32 magnitude = find_magnitude<kIn>(held), nans = find_nans(words);
#pragma unroll
      for (u32 d = 1; d < kLanes; d *= 2) {
        const u32 other = __shfl_xor_sync(mask, magnitude, d);
        magnitude = other > magnitude ? other : magnitude;
      }
      if (__any_sync(mask, nans & 1u)) {
#pragma unroll
        for (u32 d = 1; d < kLanes; d *= 2) nans |= __shfl_xor_sync(mask, nans, d);
      }
      const bool lost = Rules::kAmaxNan == 0   ? nans & 1u
                        : Rules::kAmaxNan == 1 ? false
                        : Rules::kAmaxNan == 2 ? !(nans & 2u)
                                               : !(nans & 4u);
      if (lost) magnitude = kNan;
      // Every thread of a block finds the scale, the first one writes it.
      const BlockScale b = find_scale<Rules>(magnitude, t);
      u32 packed = 0;
      if (b.ordinary && !(nans & 1u)) {
        packed = encode8_block<Rules, kIn, NO_RANDOM>(words, b, 0, 0).lo;
      } else {
        const float sf = decode_scale<Rules::kScale>(b.byte);
#pragma unroll 1
        for (int i = 0; i < 8; ++i) {
          const float element = load_element<kIn>(x, (i64)(at * 8 + i));
          packed |= encode_lane<Rules, NO_RANDOM>(element, sf, float_of(magnitude), 0, t) << (4 * i);
        }
      }
      codes[at] = packed;
      if (eight % kLanes == 0) {
        const u32 column = eight / kLanes;
        scales[MX_TILED ? tile_offset(row, column, tiles) : (u64)row * (eights / kLanes) + column] = (u8)b.byte;
      }
    }
  }
}
}  // namespace mx
