// Single numbers: encode, encode stochastically, decode. Compiled with MX_SCALAR (a name of element.cuh's Element) and
// MX_INPUT (0 float32, 1 float16, 2 bfloat16).
#include "block.cuh"
namespace mx {

extern "C" __global__ void encode_scalars(const void* __restrict__ x, u64 count, int rounding, int overflow, u32 nan_positive,
                                          u32 nan_negative, u8* __restrict__ codes) {
  for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += (u64)gridDim.x * blockDim.x)
    codes[i] = (u8)encode<MX_SCALAR>(load_element<MX_INPUT>(x, (i64)i), rounding, overflow, nan_positive, nan_negative);
}

extern "C" __global__ void encode_scalars_stochastic(const void* __restrict__ x, u64 count, const u32* __restrict__ random,
                                                     int random_bits, u32 nan_positive, u32 nan_negative, u8* __restrict__ codes) {
  for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += (u64)gridDim.x * blockDim.x)
    codes[i] = (u8)encode_stochastic<MX_SCALAR>(load_element<MX_INPUT>(x, (i64)i), random[i], random_bits, nan_positive, nan_negative);
}

// first_wide: the place of the first code with bits beyond the format's width, or null to ignore those bits.
extern "C" __global__ void decode_scalars(const u8* __restrict__ codes, u64 count, float* __restrict__ values,
                                          u64* __restrict__ first_wide) {
  for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += (u64)gridDim.x * blockDim.x)
    values[i] = decode<MX_SCALAR>(cut_code<MX_SCALAR>(codes, i, first_wide));
}
}  // namespace mx
