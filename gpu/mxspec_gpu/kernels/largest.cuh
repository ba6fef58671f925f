// The largest magnitude of what a block of threads holds. Magnitudes of floats are ordered as their bits, NaN above everything: the
// maximum is an integer maximum, and NaN spreads, unless the profile skips them.
//
// Compiled with: the profile's Rules, MX_INPUT, MX_THREADS.
#pragma once
#include "rules.cuh"

namespace mx {

constexpr bool kSkipNan = Rules::kTensorSkipsNan;

__device__ __forceinline__ u32 fold4(u32 held, const uint4& v) {
  held = fold_magnitude<kIn, kSkipNan>(fold_magnitude<kIn, kSkipNan>(held, v.x), v.y);
  return fold_magnitude<kIn, kSkipNan>(fold_magnitude<kIn, kSkipNan>(held, v.z), v.w);
}

// Maximises float32 bits in memory, once for the block. One NaN for all, so that a profile that stores the maximum itself needs no
// further step.
__device__ __forceinline__ void raise_largest(u32 largest, u32* result) {
#pragma unroll
  for (int d = 16; d; d /= 2) {
    const u32 other = __shfl_xor_sync(0xFFFFFFFFu, largest, d);
    largest = other > largest ? other : largest;
  }
  __shared__ u32 of_warp[MX_THREADS / 32];
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = largest;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int w = 1; w < MX_THREADS / 32; ++w) largest = of_warp[w] > largest ? of_warp[w] : largest;
    atomicMax(result, largest > kInf ? kNan : largest);
  }
}

// float32 bits of the maximum -> the profile's native tensor scale. The chip's operations make NaN 7FFFFFFF.
__device__ __forceinline__ float native_of(float largest) {
  const float native = Rules::native_from_amax(largest);
  return is_nan(native) ? float_of(kNan) : native;
}

}  // namespace mx
