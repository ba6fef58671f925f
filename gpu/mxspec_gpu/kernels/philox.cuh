// Random bytes from a counter: Philox4x32 with ten rounds (Salmon and others, SC11), as cuRAND, NumPy and JAX have it.
//
// The byte of element i of a quantized tensor (i counts elements in the order of the packed output, padding included) is
// byte i % 16 of the little-endian output for the counter (i / 16, 0) and the key `seed`.
#pragma once
#include "platform.cuh"

namespace mx {

struct Random16 {
  u32 w[4];
  // The byte of element i of the group, in the low bits of a word.
  MX_HD u32 byte(u32 i) const { return (i & 8 ? i & 4 ? w[3] : w[2] : i & 4 ? w[1] : w[0]) >> (8 * (i & 3)); }
};

MX_HD Random16 philox(u64 counter, u64 key) {
  u32 c0 = (u32)counter, c1 = (u32)(counter >> 32), c2 = 0, c3 = 0, k0 = (u32)key, k1 = (u32)(key >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const u64 p0 = (u64)c0 * 0xD2511F53u, p1 = (u64)c2 * 0xCD9E8D57u;
    c0 = (u32)(p1 >> 32) ^ c1 ^ k0;
    c1 = (u32)p1;
    c2 = (u32)(p0 >> 32) ^ c3 ^ k1;
    c3 = (u32)p0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

}  // namespace mx
