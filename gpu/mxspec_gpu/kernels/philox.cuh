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

// The keys of the ten rounds, two each.
struct Keys {
  u32 first[10], second[10];
};
MX_HD Keys derive_keys(u64 key) {
  Keys keys;
#pragma unroll
  for (u32 i = 0; i < 10; ++i) {
    keys.first[i] = (u32)key + i * 0x9E3779B9u;
    keys.second[i] = (u32)(key >> 32) + i * 0xBB67AE85u;
  }
  return keys;
}

// `philox` of N counters, base + offset and those that follow, with their rounds side by side: each waits for the products of
// the one before. All are taken to have the upper word of `base`; returns whether they have it. base and offset are multiples of
// N, a power of two; offset is below 2**32.
template <int N>
MX_HD bool philox_run(u64 base, u32 offset, u64 key, Random16 r[N]) {
  const Keys keys = derive_keys(key);
  const u32 low = (u32)base + offset;
  u32 c0[N], c1[N], c2[N], c3[N];
  // The first two rounds without the words that are zero. What follows from the upper word and the key alone is found once, and
  // on the chip by the uniform unit, since all threads have the same `base`.
  const u64 shared = (u64)((u32)(base >> 32) ^ keys.first[0]) * 0xD2511F53u;
  const u32 second = (u32)(shared >> 32) ^ keys.second[1], last = (u32)shared;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const u64 p0 = (u64)(low + i) * 0xD2511F53u;
    const u64 p1 = (u64)((u32)(p0 >> 32) ^ keys.second[0]) * 0xCD9E8D57u;
    c0[i] = (u32)(p1 >> 32) ^ keys.first[1];
    c1[i] = (u32)p1;
    c2[i] = (u32)p0 ^ second;
    c3[i] = last;
  }
#pragma unroll
  for (int round = 2; round < 10; ++round) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const u64 p0 = (u64)c0[i] * 0xD2511F53u, p1 = (u64)c2[i] * 0xCD9E8D57u;
      c0[i] = (u32)(p1 >> 32) ^ c1[i] ^ keys.first[round];
      c1[i] = (u32)p1;
      c2[i] = (u32)(p0 >> 32) ^ c3[i] ^ keys.second[round];
      c3[i] = (u32)p0;
    }
  }
#pragma unroll
  for (int i = 0; i < N; ++i) r[i] = {{c0[i], c1[i], c2[i], c3[i]}};
  return low >= (u32)base;
}

}  // namespace mx
