// ggml's records to values and to packed codes, and back.
//
// A block of 256 threads moves 8192 elements by way of shared memory, since records start at any byte.
// Compiled with: the profile's Rules, MX_OUTPUT (0 float32, 1 float16, 2 bfloat16), MX_STORE(p, v) of 16 bytes.
#include "records.cuh"
namespace mx {
#include "rules.generated.cuh"

constexpr int kBlock = Rules::kBlock, kThreads = 256, kBytes = Record<kBlock>::bytes, kElements = Record<kBlock>::elements;
constexpr int kRecords = 8192 / kElements, kWords = kRecords * kBytes / 4, kEights = 8192 / 8;

// The records of this block of threads, in shared memory; `total` bytes are there.
__device__ __forceinline__ void load_records(const u8* __restrict__ records, u64 total, u32* words) {
  const u64 start = (u64)blockIdx.x * (kRecords * kBytes);
#pragma unroll
  for (int i = threadIdx.x; i < kWords / 4; i += kThreads) {
    const u64 at = start + 16 * i;
    if (at + 16 <= total) {
      reinterpret_cast<uint4*>(words)[i] = __ldg(reinterpret_cast<const uint4*>(records + at));
    } else {
      for (int j = 0; j < 16; ++j) reinterpret_cast<u8*>(words)[16 * i + j] = at + j < total ? records[at + j] : 0;
    }
  }
  __syncthreads();
}

extern "C" __global__ void __launch_bounds__(kThreads)
dequantize_records(const u8* __restrict__ records, void* __restrict__ out, u64 total, u32 eights) {
  __shared__ __align__(16) u32 words[kWords + 4];
  load_records(records, total, words);
  const Tensor t = Rules::derive_tensor(1.0f);
#pragma unroll
  for (int i = 0; i < kEights / kThreads; ++i) {
    const u32 eight = threadIdx.x + i * kThreads, at = eight / (kElements / 8) * kBytes, part = eight % (kElements / 8);
    const u32 g = blockIdx.x * kEights + eight;
    float v[8];
    decode8_e2m1(read_eight<kBlock>(words, at, part), v);
    const float scale = decode_scale<Rules::kScale>(reinterpret_cast<const u8*>(words)[at + find_scale_byte<kBlock>(part)]);
#pragma unroll
    for (int j = 0; j < 8; ++j) v[j] = Rules::value(v[j], scale, t);
    if (g < eights) store8<MX_OUTPUT>(out, g, v);
  }
}

extern "C" __global__ void __launch_bounds__(kThreads)
unpack_records(const u8* __restrict__ records, uint4* __restrict__ codes, u8* __restrict__ scales, u64 total, u32 count) {
  __shared__ __align__(16) u32 words[kWords + 4];
  load_records(records, total, words);
  // A thread takes 32 elements: a record, or half of one. count: how many there are.
  const u32 at = threadIdx.x / (kElements / 32) * kBytes, first = threadIdx.x % (kElements / 32) * 4;
  const u32 g = blockIdx.x * kThreads + threadIdx.x;
  if (g >= count) return;
  u32 held[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) held[i] = read_eight<kBlock>(words, at, first + i);
  codes[g] = make_uint4(held[0], held[1], held[2], held[3]);
  const u8* bytes = reinterpret_cast<const u8*>(words) + at;
  if (kBlock == 32) {
    scales[g] = bytes[0];
  } else {
    reinterpret_cast<u16*>(scales)[g] = (u16)(bytes[first / 2] | bytes[first / 2 + 1] << 8);
  }
}

extern "C" __global__ void __launch_bounds__(kThreads)
pack_records(const u32* __restrict__ codes, const u8* __restrict__ scales, u8* __restrict__ records, u64 total, u32 count) {
  __shared__ __align__(16) u8 bytes[kRecords * kBytes];
  const u32 record = blockIdx.x * kRecords + threadIdx.x;
  if (threadIdx.x < kRecords && record < count) {
    constexpr int kEach = kElements / 8;
    u32 held[kEach];
#pragma unroll
    for (int i = 0; i < kEach / 4; ++i) {
      const uint4 v = __ldg(reinterpret_cast<const uint4*>(codes) + (u64)record * (kEach / 4) + i);
      held[4 * i] = v.x, held[4 * i + 1] = v.y, held[4 * i + 2] = v.z, held[4 * i + 3] = v.w;
    }
    u8 of_blocks[Record<kBlock>::scales];
#pragma unroll
    for (int i = 0; i < Record<kBlock>::scales; ++i) of_blocks[i] = scales[(u64)record * Record<kBlock>::scales + i];
    write_record<kBlock>(held, of_blocks, bytes + threadIdx.x * kBytes);
  }
  __syncthreads();
  const u64 start = (u64)blockIdx.x * (kRecords * kBytes);
#pragma unroll
  for (int i = threadIdx.x; i < kRecords * kBytes / 16; i += kThreads) {
    const u64 at = start + 16 * i;
    if (at + 16 <= total) {
      reinterpret_cast<uint4*>(records + at)[0] = reinterpret_cast<const uint4*>(bytes)[i];
    } else {
      for (int j = 0; j < 16; ++j)
        if (at + j < total) records[at + j] = bytes[16 * i + j];
    }
  }
}
}  // namespace mx
