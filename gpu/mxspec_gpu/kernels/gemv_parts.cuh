// What the products with a few vectors share: copies ahead of use, the tensor cores' product, and the sums' way out.
#pragma once
#include "decode8.cuh"

namespace mx {

// Yes or no, as a type.
template <bool Value>
struct Answer {
  static constexpr bool value = Value;
};

#if MX_CHIP
// 4, 8, 16 or 32 bytes on their way to shared memory, zeros where `live` is false. Lines come whole, as neighbours are read soon.
template <int Bytes>
__device__ __forceinline__ void copy_ahead(void* to, const void* from, bool live) {
  const u32 place = (u32)__cvta_generic_to_shared(to), size = live ? (Bytes < 16 ? Bytes : 16) : 0u;
  if (Bytes >= 16) asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16, %2;" ::"r"(place), "l"(from), "r"(size) : "memory");
  else asm volatile("cp.async.ca.shared.global.L2::128B [%0], [%1], %3, %2;" ::"r"(place), "l"(from), "r"(size), "n"(Bytes < 16 ? Bytes : 16) : "memory");
  if (Bytes > 16) copy_ahead<16>(static_cast<u8*>(to) + 16, static_cast<const u8*>(from) + 16, live);
}
__device__ __forceinline__ void end_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ __forceinline__ void wait_for_all() { asm volatile("cp.async.wait_all;" ::: "memory"); }
// Until at most `Depth - 1` groups are on their way.
template <int Depth>
__device__ __forceinline__ void wait_for_first() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Depth - 1) : "memory");
}

// 16 rows of A, 16 columns; A and B of float16 (Half) or bfloat16.
template <bool Half>
__device__ __forceinline__ void multiply(float c[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
  if (Half) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  }
}

// An output: `Output` is 0 float32, 1 float16, 2 bfloat16.
template <int Output>
__device__ __forceinline__ void store_output(void* y, u64 at, float value) {
  if (Output == FLOAT32) static_cast<float*>(y)[at] = value;
  else static_cast<u16*>(y)[at] = (u16)(Output == FLOAT16 ? pack_f16x2(value, 0.0f) : pack_bf16x2(value, 0.0f));
}
#endif

}  // namespace mx
