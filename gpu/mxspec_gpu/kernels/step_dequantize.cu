// Teaching steps of dequantizing e2m1 blocks to float16 or bfloat16: the thread models of the MXFP4 notes, one kernel each, with
// the rules of the profile. dequantize.cu is what they lead to.
//
// Compiled with: the profile's Rules, MX_OUTPUT (1 float16, 2 bfloat16), MX_WAY (2, 4 or 8, elements of a thread in
// dequantize_ways).
#include "records.cuh"
namespace mx {
#include "rules.generated.cuh"

constexpr int kBlock = Rules::kBlock, kElements = Record<kBlock>::elements, kBytes = Record<kBlock>::bytes;
static_assert(Rules::kElement == E2M1 && MX_OUTPUT != FLOAT32, "the steps are of four-bit codes to 16-bit numbers");

__device__ __forceinline__ u32 pack_two(float low, float high) {
  return MX_OUTPUT == FLOAT16 ? pack_f16x2(low, high) : pack_bf16x2(low, high);
}

// One element of a record of ggml's: its nibble, and its block's scale.
__device__ __forceinline__ float read_element(const u8* record, u32 element, const Tensor& t) {
  constexpr u32 kHalf = kBlock / 2;  // elements i and i + kHalf share a byte
  const u32 block = element / kBlock, within = element % kBlock;
  const u8 byte = record[Record<kBlock>::scales + block * kHalf + within % kHalf];
  return dequantize_lane<Rules>(within < kHalf ? byte & 15u : byte >> 4, record[block], t);
}

// A thread an element, a block of threads a record.
extern "C" __global__ void dequantize_elements(const u8* __restrict__ records, u16* __restrict__ out, u32 count) {
  if (blockIdx.x >= count) return;
  const Tensor t = Rules::derive_tensor(1.0f);
  const float v = read_element(records + (u64)blockIdx.x * kBytes, threadIdx.x, t);
  out[(u64)blockIdx.x * kElements + threadIdx.x] = (u16)pack_two(v, 0.0f);
}

// A thread a record: neighbouring threads read and write places far from each other.
extern "C" __global__ void dequantize_records_each(const u8* __restrict__ records, u16* __restrict__ out, u32 count) {
  const u32 record = blockIdx.x * blockDim.x + threadIdx.x;
  if (record >= count) return;
  const Tensor t = Rules::derive_tensor(1.0f);
#pragma unroll 4
  for (u32 i = 0; i < kElements; ++i)
    out[(u64)record * kElements + i] = (u16)pack_two(read_element(records + (u64)record * kBytes, i, t), 0.0f);
}

// Packed codes and scales apart: a thread reads MX_WAY / 2 bytes of codes at once and writes MX_WAY numbers at once. count: of threads.
extern "C" __global__ void dequantize_ways(const u8* __restrict__ codes, const u8* __restrict__ scales, void* __restrict__ out,
                                           const float* __restrict__ tensor, u32 tensor_bits, u32 count) {
  const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const Tensor t = Rules::derive_tensor(tensor_value<Rules>(tensor, tensor_bits));
  const u32 held = MX_WAY == 2   ? (u32)codes[i]
                   : MX_WAY == 4 ? (u32)reinterpret_cast<const u16*>(codes)[i]
                                 : reinterpret_cast<const u32*>(codes)[i];
  const u32 scale = scales[i / (kBlock / MX_WAY)];
  u32 w[MX_WAY / 2];
#pragma unroll
  for (int j = 0; j < MX_WAY / 2; ++j) {
    const u32 two = held >> (8 * j);
    w[j] = pack_two(dequantize_lane<Rules>(two & 15u, scale, t), dequantize_lane<Rules>(two >> 4 & 15u, scale, t));
  }
#if MX_WAY == 2
  static_cast<u32*>(out)[i] = w[0];
#elif MX_WAY == 4
  static_cast<uint2*>(out)[i] = make_uint2(w[0], w[1]);
#else
  static_cast<uint4*>(out)[i] = make_uint4(w[0], w[1], w[2], w[3]);
#endif
}
}  // namespace mx
