// Eight stored elements at a time: packed codes -> float32, exact.
#pragma once
#include "block.cuh"

namespace mx {

// Packed codes of eight elements, little-endian.
template <int Bits>
struct Codes8 {
  u32 lo, hi;
};

template <int Bits>
MX_HD Codes8<Bits> load_codes8(const u8* codes, u32 eight) {
  if (Bits == 4) return {reinterpret_cast<const u32*>(codes)[eight], 0};
  if (Bits == 8) {
#if MX_CHIP
    const uint2 v = reinterpret_cast<const uint2*>(codes)[eight];
    return {v.x, v.y};
#else
    return {reinterpret_cast<const u32*>(codes)[2 * (u64)eight], reinterpret_cast<const u32*>(codes)[2 * (u64)eight + 1]};
#endif
  }
  // Six bytes: 12 bytes hold two groups, so an even group starts a word and an odd one starts in the middle of a word.
  const u16* halves = reinterpret_cast<const u16*>(codes) + (u64)eight * 3;
  return {(u32)halves[0] | (u32)halves[1] << 16, halves[2]};
}

// bfloat16 of e2m1 codes, two neighbours a word: the halves of the eight magnitudes lie in two words that the code selects from.
MX_HD void decode8_e2m1_bf16(u32 codes, u32 w[4]) {
  const u32 magnitudes = codes & 0x77777777u, even_signs = codes << 4;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const u32 select = i ? magnitudes >> 16 : magnitudes;
    const u32 low = permute(0xC0800000u, 0xC0804000u, select), high_bare = permute(0x3F3F3F00u, 0x40404040u, select);
    const u32 signs = permute(even_signs, codes, i ? 0x7362 : 0x5140);
    const u32 high = high_bare | (signs & 0x80808080u);
    w[2 * i] = permute(low, high, 0x5140);
    w[2 * i + 1] = permute(low, high, 0x7362);
  }
}

MX_HD void decode8_e2m1(u32 codes, float v[8]) {
  u32 w[4];
  decode8_e2m1_bf16(codes, w);
#pragma unroll
  for (int i = 0; i < 4; ++i) v[2 * i] = float_of(w[i] << 16), v[2 * i + 1] = float_of(w[i] & 0xFFFF0000u);
}

// Four e4m3 or e5m2 codes, or six-bit codes moved to their places (s00ccccc), times `unit` (2**6 for e2m3, 2**12 for e3m2).
template <int F>
MX_HD void decode4_fp8(u32 codes, float v[4]) {
#if MX_HAS_FP8_CVT
  u32 pairs[2];
  if (F == E4M3) {
    pairs[0] = e4m3x2_to_f16x2(codes & 0xFFFFu);
    pairs[1] = e4m3x2_to_f16x2(codes >> 16);
  } else {  // e5m2 is the upper half of a float16
    pairs[0] = permute(codes, 0u, 0x1404);
    pairs[1] = permute(codes, 0u, 0x3424);
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    v[2 * i] = from_f16_number(pairs[i] & 0xFFFFu);
    v[2 * i + 1] = from_f16_number(pairs[i] >> 16);
  }
#else
  for (int i = 0; i < 4; ++i) v[i] = decode<F>(codes >> (8 * i) & 0xFFu);
#endif
}

// 24 bits of six-bit codes to four bytes s00ccccc.
MX_HD u32 widen_fp6(u32 packed) {
  const u32 pairs = (packed & 0xFFFu) | (packed << 4 & 0x0FFF0000u);
  const u32 bytes = (pairs & 0x003F003Fu) | (pairs << 2 & 0x3F003F00u);
  return (bytes & 0x1F1F1F1Fu) | (bytes << 2 & 0x80808080u);
}

// Four int8 codes: 2**23 + 128 + n has n + 128 in its low byte.
MX_HD void decode4_int8(u32 codes, float v[4]) {
  const u32 shifted = codes ^ 0x80808080u;
#pragma unroll
  for (int i = 0; i < 4; ++i)
    v[i] = fmul(fsub(float_of(permute(shifted, 0x4B000000u, 0x7440 + i)), 8388736.0f), 0.015625f);
}

template <int F>
MX_HD void decode8(const Codes8<Format<F>::bits>& c, float v[8]) {
  if (F == E2M1) return decode8_e2m1(c.lo, v);
  if (F == INT8) {
    decode4_int8(c.lo, v);
    decode4_int8(c.hi, v + 4);
  } else if (F == E4M3 || F == E5M2) {
    decode4_fp8<F>(c.lo, v);
    decode4_fp8<F>(c.hi, v + 4);
  } else {
    constexpr int fp8 = F == E2M3 ? E4M3 : E5M2;
    decode4_fp8<fp8>(widen_fp6(c.lo & 0xFFFFFFu), v);
    decode4_fp8<fp8>(widen_fp6(c.lo >> 24 | c.hi << 8), v + 4);
#pragma unroll
    for (int i = 0; i < 8; ++i) v[i] = fmul(v[i], F == E2M3 ? 64.0f : 4096.0f);
  }
}

#ifdef MX_STORE
// Eight values, rounded once to nearest even, to out[8 eight ...]. NaN is the chip's.
template <int Out>
MX_HD void store8(void* out, u32 eight, const float v[8]) {
  if (Out == FLOAT32) {
    float4* to = static_cast<float4*>(out) + 2 * (u64)eight;
    MX_STORE(to, make_float4(v[0], v[1], v[2], v[3]));
    MX_STORE(to + 1, make_float4(v[4], v[5], v[6], v[7]));
    return;
  }
  u32 w[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) w[i] = Out == FLOAT16 ? pack_f16x2(v[2 * i], v[2 * i + 1]) : pack_bf16x2(v[2 * i], v[2 * i + 1]);
  MX_STORE(static_cast<uint4*>(out) + eight, make_uint4(w[0], w[1], w[2], w[3]));
}
#endif

}  // namespace mx
