// Packed codes -> one code a byte. Compiled with MX_SCALAR.
#include "block.cuh"
namespace mx {
extern "C" __global__ void unpack_codes(const u8* __restrict__ packed, u64 count, u8* __restrict__ codes) {
  for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += (u64)gridDim.x * blockDim.x)
    codes[i] = (u8)unpack_code<MX_SCALAR>(packed, i);
}

// One code a byte -> packed; a thread makes one byte. first_wide: the place of the first code with bits beyond the format's
// width, or null to ignore those bits.
extern "C" __global__ void pack_codes(const u8* __restrict__ codes, u64 bytes, u64 count, u8* __restrict__ packed,
                                      u64* __restrict__ first_wide) {
  constexpr int bits = Format<MX_SCALAR>::bits;
  for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < bytes; i += (u64)gridDim.x * blockDim.x) {
    u32 held = 0;
    for (u64 c = i * 8 / bits; c < count && c * bits < i * 8 + 8; ++c) {
      const u32 code = cut_code<MX_SCALAR>(codes, c, first_wide);
      const i64 at = (i64)(c * bits) - (i64)(i * 8);
      held |= at < 0 ? code >> -at : code << at;
    }
    packed[i] = (u8)held;
  }
}
}  // namespace mx
