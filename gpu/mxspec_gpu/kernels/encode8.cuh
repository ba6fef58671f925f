// Eight elements at a time: the fast encoders. Each gives what element.cuh's `encode` gives, rounding to nearest even and
// saturating, for inputs without NaN; the tests compare all of them.
//
// e2m1: with E the power of two of |s|'s binade (at least 1, that of the subnormals), s + 1.5 * 2**22 E rounds s to the
// step of its binade in one operation, and subtracting that constant again is exact. Multiplied by 2**-126 the result is a
// bfloat16 whose exponent and first mantissa bits are the code.
// e2m3, e3m2: their steps are those of e4m3 and e5m2, 2**6 and 2**12 lower, so the fp8 conversions round them.
// int8: s * 64 + 1.5 * 2**23 has the code in its low byte.
#pragma once
#include "element.cuh"

namespace mx {

// Codes of eight elements as they leave an encoder: e2m1 packed, low nibble first, in `lo`; others a byte each.
struct Eight {
  u32 lo, hi;
};

// Four words of two lanes, each with an e2m1 code in its upper four bits, to eight packed nibbles. The twelve bits below a
// code do not matter.
MX_HD u32 gather_e2m1(u32 w0, u32 w1, u32 w2, u32 w3) {
  const u32 p01 = permute(w0, w1, 0x7351), p23 = permute(w2, w3, 0x7351);
  const u32 even = permute(p01, p23, 0x5410), odd = permute(p01, p23, 0x7632);  // codes of 0 2 4 6 and 1 3 5 7, in upper nibbles
  return (even >> 4 & 0x0F0F0F0Fu) | (odd & 0xF0F0F0F0u);
}

// The same from words with a sign in bit 15 and a magnitude code in bits 11 to 9 of each lane (a float16 times 2**-14).
MX_HD u32 gather_e2m1_f16(u32 w0, u32 w1, u32 w2, u32 w3) {
  const u32 p01 = permute(w0, w1, 0x7351), p23 = permute(w2, w3, 0x7351);
  const u32 even = permute(p01, p23, 0x5410), odd = permute(p01, p23, 0x7632);  // bytes s000cccx
  return (even >> 1 & 0x07070707u) | (even >> 4 & 0x08080808u) | (odd << 3 & 0x70707070u) | (odd & 0x80808080u);
}

// A word of two bfloat16, each an e2m1 value times 2**-126, to a word for `gather_e2m1`: their magnitude codes stand in
// bits 8 to 6. The signs come from bits 15 and 31 of `signs`, since rounding to zero has lost that of the value.
MX_HD u32 place_e2m1(u32 aligned, u32 signs) { return (aligned << 6 & 0x7FFF7FFFu) | (signs & 0x80008000u); }

// s rounded to e2m1's step, as float32; magnitudes below 7 (6 is the largest value).
MX_HD float round_e2m1(float s) {
  const u32 binade = bits_of(s) & kInf;
  const float e = float_of(binade > 0x3F800000u ? binade : 0x3F800000u);
  return ffma(e, -6291456.0f, ffma(e, 6291456.0f, s));
}

// signs: the elements' signs in bits 15 and 31 of four words; magnitudes below 7.
MX_HD Eight encode8_e2m1(const float s[8], const u32 signs[4]) {
#if MX_HAS_FP4_CVT
  u32 r;
  asm("{.reg .b8 a, b, c, d;\n"
      "cvt.rn.satfinite.e2m1x2.f32 a, %2, %1;\ncvt.rn.satfinite.e2m1x2.f32 b, %4, %3;\n"
      "cvt.rn.satfinite.e2m1x2.f32 c, %6, %5;\ncvt.rn.satfinite.e2m1x2.f32 d, %8, %7;\n"
      "mov.b32 %0, {a, b, c, d};}"
      : "=r"(r) : "f"(s[0]), "f"(s[1]), "f"(s[2]), "f"(s[3]), "f"(s[4]), "f"(s[5]), "f"(s[6]), "f"(s[7]));
  return {r, 0};
#else
  u32 w[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const u32 r = pack_bf16x2(round_e2m1(s[2 * i]), round_e2m1(s[2 * i + 1]));
    w[i] = place_e2m1(mul_bf16x2(r, 0x00800080u), signs[i]);  // times 2**-126
  }
  return {gather_e2m1(w[0], w[1], w[2], w[3]), 0};
#endif
}

// Two bfloat16 over powers of two, in packed bfloat16 arithmetic, as a word for `gather_e2m1`. A lane of `factor` is 2**-e
// and of `limit` 6 * 2**e.
MX_HD u32 encode2_e2m1_bf16(u32 x, u32 factor, u32 limit) {
  const u32 s = mul_bf16x2(min_magnitude_bf16x2(x, limit), factor);
  const u32 e = max_u16x2(s & 0x7F807F80u, 0x3F803F80u);
  const u32 r = fma_bf16x2(e, 0xC2C0C2C0u, fma_bf16x2(e, 0x42C042C0u, s));  // 96 e: units of 1/2 for e = 1
  return place_e2m1(mul_bf16x2(r, 0x00800080u), x);
}

// Eight elements of a block.
MX_HD Eight encode8_e2m1_bf16(const u32 x[4], u32 factor, u32 limit) {
  u32 w[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) w[i] = encode2_e2m1_bf16(x[i], factor, limit);
  return {gather_e2m1(w[0], w[1], w[2], w[3]), 0};
}

// Eight elements of each of two blocks whose elements share words: packed nibbles of the low lanes, then of the high ones.
MX_HD Eight gather_two_e2m1(const u32 w[8]) {
  const u32 p02 = permute(w[0], w[2], 0x7351), p46 = permute(w[4], w[6], 0x7351);
  const u32 p13 = permute(w[1], w[3], 0x7351), p57 = permute(w[5], w[7], 0x7351);
  return {(permute(p02, p46, 0x5410) >> 4 & 0x0F0F0F0Fu) | (permute(p13, p57, 0x5410) & 0xF0F0F0F0u),
          (permute(p02, p46, 0x7632) >> 4 & 0x0F0F0F0Fu) | (permute(p13, p57, 0x7632) & 0xF0F0F0F0u)};
}

// Stochastic rounding of e2m1 by the integer rule with 8 bits; random: a byte for each element, the first lowest.
// s * 2**-14, cut to float16, is the code and nine bits of what is left; twice the random byte carries or does not.
MX_HD Eight encode8_e2m1_stochastic(const float s[8], u32 random_lo, u32 random_hi) {
  u32 w[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const u32 r = permute(i < 2 ? random_lo : random_hi, 0u, i & 1 ? 0x4342 : 0x4140);
    w[i] = pack_f16x2_toward_zero(fmul(clamp_magnitude(s[2 * i], 6.0f), 0x1p-14f),
                                  fmul(clamp_magnitude(s[2 * i + 1], 6.0f), 0x1p-14f)) + (r << 1);
  }
  return {gather_e2m1_f16(w[0], w[1], w[2], w[3]), 0};
}

template <int F>
MX_HD u32 encode4_fp8(float a, float b, float c, float d) {
#if MX_HAS_FP8_CVT
  if (F == E4M3) return cvt_e4m3x2(a, b) | cvt_e4m3x2(c, d) << 16;
  return cvt_e5m2x2(a, b) | cvt_e5m2x2(c, d) << 16;
#else
  return encode<F>(a, RNE, SATURATE, 0x7F, 0x7F) | encode<F>(b, RNE, SATURATE, 0x7F, 0x7F) << 8 |
         encode<F>(c, RNE, SATURATE, 0x7F, 0x7F) << 16 | encode<F>(d, RNE, SATURATE, 0x7F, 0x7F) << 24;
#endif
}

// Four fp8 codes s00ccccc to six-bit codes in bytes.
MX_HD u32 narrow_fp6(u32 v) { return (v & 0x1F1F1F1Fu) | (v >> 2 & 0x20202020u); }

template <int F>
MX_HD Eight encode8_fp6(const float s[8]) {
#if MX_HAS_FP4_CVT
  u32 lo, hi;
#define MX_FP6(name)                                                                                              \
  asm("{.reg .b16 a, b, c, d;\n"                                                                                  \
      "cvt.rn.satfinite." name "x2.f32 a, %3, %2;\ncvt.rn.satfinite." name "x2.f32 b, %5, %4;\n"                   \
      "cvt.rn.satfinite." name "x2.f32 c, %7, %6;\ncvt.rn.satfinite." name "x2.f32 d, %9, %8;\n"                   \
      "mov.b32 %0, {a, b};\nmov.b32 %1, {c, d};}"                                                                 \
      : "=r"(lo), "=r"(hi)                                                                                        \
      : "f"(s[0]), "f"(s[1]), "f"(s[2]), "f"(s[3]), "f"(s[4]), "f"(s[5]), "f"(s[6]), "f"(s[7]))
  if (F == E2M3) MX_FP6("e2m3");
  else MX_FP6("e3m2");
#undef MX_FP6
  return {lo, hi};
#else
  constexpr int fp8 = F == E2M3 ? E4M3 : E5M2;
  constexpr float shift = F == E2M3 ? 0x1p-6f : 0x1p-12f, largest = F == E2M3 ? 7.5f : 28.0f;
  float v[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) v[i] = fmul(clamp_magnitude(s[i], largest), shift);
  return {narrow_fp6(encode4_fp8<fp8>(v[0], v[1], v[2], v[3])), narrow_fp6(encode4_fp8<fp8>(v[4], v[5], v[6], v[7]))};
#endif
}

MX_HD u32 encode_int8_word(float s) { return bits_of(ffma(clamp_magnitude(s, 1.984375f), 64.0f, 12582912.0f)); }

MX_HD u32 low_bytes(u32 a, u32 b, u32 c, u32 d) { return permute(permute(a, b, 0x0040), permute(c, d, 0x0040), 0x5410); }

// Eight scaled elements; signs: theirs, in bits 15 and 31 of four words (only e2m1 looks at them).
template <int F>
MX_HD Eight encode8(const float s[8], const u32 signs[4]) {
  if (F == E2M1) return encode8_e2m1(s, signs);
  if (F == E4M3 || F == E5M2) return {encode4_fp8<F>(s[0], s[1], s[2], s[3]), encode4_fp8<F>(s[4], s[5], s[6], s[7])};
  if (F == E2M3 || F == E3M2) return encode8_fp6<F>(s);
  u32 w[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) w[i] = encode_int8_word(s[i]);
  return {low_bytes(w[0], w[1], w[2], w[3]), low_bytes(w[4], w[5], w[6], w[7])};
}

// From this magnitude on elements are clamped before `encode8` sees them: those of e2m1 from 7, which rounds to 8.
template <int F>
struct Encode8Clamp {
  static constexpr bool needed = F == E2M1;
  static constexpr u32 from = 0x40E00000u;
};

// Four six-bit codes, a byte each, to 24 bits, little-endian.
MX_HD u32 pack_fp6(u32 v) {
  const u32 pairs = (v & 0x003F003Fu) | (v >> 2 & 0x0FC00FC0u);
  return (pairs & 0xFFFu) | (pairs >> 4 & 0xFFF000u);
}

// Four 24-bit groups to three words.
struct ThreeWords {
  u32 a, b, c;
};
MX_HD ThreeWords join_fp6(u32 g0, u32 g1, u32 g2, u32 g3) {
  return {permute(g0, g1, 0x4210), permute(g1, g2, 0x5421), permute(g2, g3, 0x6542)};
}

}  // namespace mx
