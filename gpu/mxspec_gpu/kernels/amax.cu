// The largest magnitude of a tensor, and what a profile makes of it.
//
// Compiled with: what largest.cuh names.
#include "largest.cuh"
namespace mx {

constexpr int kElements16 = 16 / kItem;  // elements of 16 bytes

// result: float32 bits, zeroed before. count: elements; head: those before the first aligned 16 bytes; vectors: whole aligned
// 16 bytes. What is left at both ends is read one by one.
extern "C" __global__ void __launch_bounds__(MX_THREADS)
tensor_amax(const void* __restrict__ x, u32 head, u64 vectors, u64 count, u32* __restrict__ result) {
  const uint4* source = reinterpret_cast<const uint4*>(static_cast<const u8*>(x) + head * kItem);
  u32 held = 0;
  const u64 step = (u64)gridDim.x * MX_THREADS;
  u64 i = (u64)blockIdx.x * MX_THREADS + threadIdx.x;
  for (; i + 3 * step < vectors; i += 4 * step) {
    uint4 v[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) v[j] = __ldcs(source + i + j * step);
#pragma unroll
    for (int j = 0; j < 4; ++j) held = fold4(held, v[j]);
  }
  for (; i < vectors; i += step) held = fold4(held, __ldcs(source + i));
  u32 largest = find_magnitude<kIn>(held);
  if (blockIdx.x == 0) {
    const u64 body = vectors * kElements16, ends = count - body;
    for (u64 i = threadIdx.x; i < ends; i += MX_THREADS) {
      const u64 j = i < head ? i : i + body;
      const u32 a = bits_of(load_element<kIn>(x, (i64)j)) & ~kSign;
      if (a > largest && !(kSkipNan && a > kInf)) largest = a;
    }
  }
  raise_largest(largest, result);
}

#if MX_TRANSFORMED
// The same after the transform. groups: of sixteen neighbouring elements, 16-byte aligned.
extern "C" __global__ void __launch_bounds__(MX_THREADS)
transformed_amax(const uint4* __restrict__ x, u64 groups, u32* __restrict__ result) {
  u32 held = 0;
  for (u64 i = (u64)blockIdx.x * MX_THREADS + threadIdx.x; i < groups; i += (u64)gridDim.x * MX_THREADS) {
    const uint4 first = __ldg(x + 2 * i), second = __ldg(x + 2 * i + 1);
    const u32 words[8] = {first.x, first.y, first.z, first.w, second.x, second.y, second.z, second.w};
    float v[16];
#pragma unroll
    for (int j = 0; j < 16; ++j) v[j] = half_of<kIn>(words[j / 2], j & 1);
    hadamard16<MX_TRANSFORM>(v);
    u32 values[2 * Raw<kValue>::words8];
    pack16<kValue>(v, values);
#pragma unroll
    for (int j = 0; j < 2 * Raw<kValue>::words8; ++j) held = fold_magnitude<kValue, kSkipNan>(held, values[j]);
  }
  raise_largest(find_magnitude<kValue>(held), result);
}
#endif

// In place.
extern "C" __global__ void derive_native(float* value) { *value = native_of(*value); }
}  // namespace mx
