// A block in registers: its largest magnitude, its scale, and eight codes at a time.
//
// Where every scaled element is finite (an `ordinary` block), an element's code follows from x times, or over, one float32 that
// the block shares. Other blocks (NaN, Inf, a factor that is not finite) are left to block.cuh.
#pragma once
#include "block.cuh"
#include "encode8.cuh"

namespace mx {

// Words of eight elements.
template <int In>
struct Raw {
  static constexpr int element_bytes = In == FLOAT32 ? 4 : 2, words8 = In == FLOAT32 ? 8 : 4;
};

// The largest magnitude of n words in the input's own bits: two lanes of 16, or one of 32. NaN are above everything, or
// (SkipNan) count for nothing.
template <int In, bool SkipNan = false>
MX_HD u32 fold_magnitude(u32 held, u32 word) {
  if (In == FLOAT32) {
    const u32 a = word & ~kSign;
    return a > held && !(SkipNan && a > kInf) ? a : held;
  }
  return In == BFLOAT16 ? max_magnitude_bf16x2<SkipNan>(held, word) : max_magnitude_f16x2<SkipNan>(held, word);
}

// float32 bits of one 16-bit magnitude, or of a float32's.
template <int In>
MX_HD u32 widen_magnitude(u32 bits) {
  if (In == FLOAT32) return bits;
  return In == BFLOAT16 ? bits << 16 : bits_of(from_f16_number(bits));
}

// float32 bits of the largest magnitude that `fold_magnitude` holds.
template <int In>
MX_HD u32 find_magnitude(u32 held) {
  if (In == FLOAT32) return held;
  const u32 lo = held & 0xFFFFu, hi = held >> 16;
  return widen_magnitude<In>(lo > hi ? lo : hi);
}

// float32 bits of the largest magnitude of N words, at least two; NaN are above everything. bfloat16 words are compared with
// their signs (max.xorsign), which go once, at the end.
template <int In, int N>
MX_HD u32 find_largest(const u32* words) {
  constexpr bool any_sign = In == BFLOAT16;
  u32 held = any_sign ? words[0] : 0;
#pragma unroll
  for (int i = any_sign ? 1 : 0; i < N; ++i)
    held = any_sign ? max_magnitude_any_sign_bf16x2(held, words[i]) : fold_magnitude<In>(held, words[i]);
  if (any_sign) return max_magnitude_any_sign_bf16x2(held, permute(held, held, 0x1032)) & 0x7FFF0000u;
  return find_magnitude<In>(held);
}

struct BlockScale {
  u32 byte;
  float factor;
  bool ordinary;
  bool clamped;  // elements pass the bound of `Encode8Clamp`
};

template <class R, class T>
MX_HD BlockScale find_scale(u32 magnitude, const T& t) {
  const float amax = float_of(magnitude);
  const u32 byte = encode_scale<R>(R::scale_value(amax, t));
  const float sf = decode_scale<R::kScale>(byte), factor = R::factor(sf, amax, t);
  // The product is the largest scaled magnitude; a negative or NaN one has larger bits than any finite one.
  const u32 largest = bits_of(R::apply(amax, factor));
  // Encoders of eight saturate: where a profile does not, the plain way does what is beyond the largest value.
  const u32 end = R::kOverflow == OWN ? bits_of(decode<R::kElement>(Format<R::kElement>::max_code)) + 1u : kInf;
  const bool ordinary = magnitude < kInf && largest < end && !is_nan(sf);
  return {byte, factor, ordinary, Encode8Clamp<R::kElement>::needed && largest >= Encode8Clamp<R::kElement>::from};
}

// Eight elements as float32, by the block's factor.
template <class R, int In>
MX_HD void scale8(const u32* x, float factor, float s[8]) {
  if (In == FLOAT32) {
#pragma unroll
    for (int i = 0; i < 8; ++i) s[i] = R::apply(float_of(x[i]), factor);
  } else {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float lo = In == FLOAT16 ? from_f16_number(x[i] & 0xFFFFu) : float_of(x[i] << 16);
      const float hi = In == FLOAT16 ? from_f16_number(x[i] >> 16) : float_of(x[i] & 0xFFFF0000u);
      s[2 * i] = R::apply(lo, factor);
      s[2 * i + 1] = R::apply(hi, factor);
    }
  }
}

// Elements of two blocks that share a word, each by its block's factor, as a word for `gather_two_e2m1`. clamp: whether
// either block's elements pass the bound of `Encode8Clamp`.
template <class R, int In>
MX_HD u32 encode2_e2m1(u32 x, float low_factor, float high_factor, bool clamp) {
  float lo = R::apply(In == FLOAT16 ? from_f16_number(x & 0xFFFFu) : float_of(x << 16), low_factor);
  float hi = R::apply(In == FLOAT16 ? from_f16_number(x >> 16) : float_of(x & 0xFFFF0000u), high_factor);
  if (clamp) lo = clamp_magnitude(lo, 6.0f), hi = clamp_magnitude(hi, 6.0f);
  return place_e2m1(mul_bf16x2(pack_bf16x2(round_e2m1(lo), round_e2m1(hi)), 0x00800080u), x);  // times 2**-126
}

// bfloat16 with a power of two, twice in a word.
MX_HD u32 twice_bf16(float x) { return permute(bits_of(x), bits_of(x), 0x7632); }

// Codes of eight elements of an ordinary block; random bytes are ignored where Rand is NO_RANDOM.
template <class R, int In, int Rand>
MX_HD Eight encode8_block(const u32* x, const BlockScale& b, u32 random_lo, u32 random_hi) {
  if (Rand == NO_RANDOM && In == BFLOAT16 && R::kElement == E2M1 && R::kPowerOfTwo && !MX_HAS_FP4_CVT)
    return encode8_e2m1_bf16(x, twice_bf16(b.factor), twice_bf16(fmul(reciprocal_of_power(b.factor), 6.0f)));
  float s[8];
  scale8<R, In>(x, b.factor, s);
  if (Rand != NO_RANDOM) return encode8_e2m1_stochastic(s, random_lo, random_hi);
  u32 signs[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) signs[i] = In == FLOAT32 ? permute(x[2 * i], x[2 * i + 1], 0x7632) : x[i];
  if (b.clamped) {
#pragma unroll
    for (int i = 0; i < 8; ++i) s[i] = clamp_magnitude(s[i], 6.0f);
  }
  return encode8<R::kElement>(s, signs);
}

}  // namespace mx
