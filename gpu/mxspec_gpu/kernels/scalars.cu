// Single numbers: encode, encode stochastically, decode. Compiled with MX_SCALAR (a name of element.cuh's Element).
#include "element.cuh"
namespace mx {

extern "C" __global__ void encode_scalars(const float* __restrict__ x, u64 count, int rounding, int overflow, u32 nan_positive,
                                          u32 nan_negative, u8* __restrict__ codes) {
  for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += (u64)gridDim.x * blockDim.x)
    codes[i] = (u8)encode<MX_SCALAR>(x[i], rounding, overflow, nan_positive, nan_negative);
}

extern "C" __global__ void encode_scalars_stochastic(const float* __restrict__ x, u64 count, const u32* __restrict__ random,
                                                     int random_bits, u32 nan_positive, u32 nan_negative, u8* __restrict__ codes) {
  for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += (u64)gridDim.x * blockDim.x)
    codes[i] = (u8)encode_stochastic<MX_SCALAR>(x[i], random[i], random_bits, nan_positive, nan_negative);
}

extern "C" __global__ void decode_scalars(const u8* __restrict__ codes, u64 count, float* __restrict__ values) {
  for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += (u64)gridDim.x * blockDim.x)
    values[i] = decode<MX_SCALAR>(codes[i]);
}
}  // namespace mx
