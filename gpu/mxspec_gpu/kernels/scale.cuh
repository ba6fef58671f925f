// Block scales: the value of a profile's scale expression -> scale byte, and back.
#pragma once
#include "element.cuh"

namespace mx {

// mxspec.profiles.schema.ScaleStep, as far as the kernels go.
enum ScaleStep {
  STEP_FLOOR,       // e8m0: exponent floor(log2 value)
  STEP_CEIL,        // e8m0: exponent ceil(log2 value)
  STEP_HALF_UP,     // e8m0: significand rounded half up to the element's precision, then floor
  STEP_RATIO_UP,    // e8m0: value / M rounded up to a power of two, the quotient exact
  STEP_ENCODE_UP,   // e8m0: the float32 value rounded up to a power of two
  STEP_ENCODE_RNE,  // ue4m3: nearest even, saturating
  STEP_STORE,       // f32: the value itself
};

// What holds a scale.
template <int S>
struct Stored {
  typedef u8 Word;
};
template <>
struct Stored<F32> {
  typedef u32 Word;
};

// Trailing significand bits and exponent of an element's largest value, and its float32 significand.
template <int F>
struct Largest {
  static constexpr int bits = Format<F>::exponent_bits ? Format<F>::mantissa_bits : Format<F>::mantissa_bits - 1;
  static constexpr int emax = Format<F>::exponent_bits ? (Format<F>::max_code >> Format<F>::mantissa_bits) - Format<F>::bias : 0;
  static constexpr u32 fraction =
      Format<F>::exponent_bits ? (u32)(Format<F>::max_code & ((1 << Format<F>::mantissa_bits) - 1)) << (23 - Format<F>::mantissa_bits)
                               : 0x7E0000u;  // 127/64
};

struct Binade {
  int exponent;  // floor(log2)
  u32 fraction;  // 23 bits
};

// A positive finite float32, subnormals included.
MX_HD Binade split_binade(u32 magnitude) {
  if (magnitude >= 0x00800000u) return {(int)(magnitude >> 23) - 127, magnitude & 0x7FFFFFu};
  const int zeros = leading_zeros(magnitude) - 8;  // shift that brings the leading one to bit 23
  return {-126 - zeros, (magnitude << zeros) & 0x7FFFFFu};
}

// Exponent of an e8m0 rule for a positive finite value, before bias and clamping.
template <int Step, int F>
MX_HD int scale_exponent(u32 magnitude) {
  const Binade v = split_binade(magnitude);
  if (Step == STEP_FLOOR) return v.exponent;
  if (Step == STEP_CEIL || Step == STEP_ENCODE_UP) return v.exponent + (v.fraction != 0);
  if (Step == STEP_HALF_UP) {
    // from 2 - 2**-(bits + 1) on it rounds up to the next power of two
    constexpr u32 bound = 0x800000u - (1u << (22 - Largest<F>::bits));
    return v.exponent + (v.fraction >= bound);
  }
  return v.exponent - Largest<F>::emax + (v.fraction > Largest<F>::fraction);  // STEP_RATIO_UP
}

// The scale byte, or the bits of a float32. R: the rules of one profile and format (generated): kScaleStep, kElement, kSubtractEmax,
// kOffset, kByteLow, kByteHigh, kOnZero, kOnInf, kOnNan.
template <class R>
MX_HD u32 encode_scale(float value) {
  const u32 magnitude = bits_of(value) & ~kSign;
#if MX_HAS_FP8_CVT
  // The conversion has these answers for zero, infinity and NaN by itself.
  if (R::kScaleStep == STEP_ENCODE_RNE && R::kByteLow == 0 && R::kByteHigh == 0x7E && R::kOnZero == 0 && R::kOnInf == 0x7E &&
      R::kOnNan == 0x7F)
    return cvt_e4m3x2(float_of(magnitude), 0.0f) & 0xFFu;
#endif
  if (magnitude > kInf) return R::kOnNan;
  if (magnitude == kInf) return R::kOnInf;
  if (magnitude == 0) return R::kOnZero;
  int code;
  if (R::kScaleStep == STEP_STORE) {
    code = (int)magnitude;
  } else if (R::kScaleStep == STEP_ENCODE_RNE) {
#if MX_HAS_FP8_CVT
    code = (int)(cvt_e4m3x2(float_of(magnitude), 0.0f) & 0x7Fu);
#else
    code = (int)encode<UE4M3>(float_of(magnitude), RNE, SATURATE, 0x7F, 0x7F);
#endif
  } else {
    code = scale_exponent<R::kScaleStep, R::kElement>(magnitude) + 127 + R::kOffset;
    if (R::kSubtractEmax) code -= Largest<R::kElement>::emax;
  }
  return (u32)(code < R::kByteLow ? R::kByteLow : code > R::kByteHigh ? R::kByteHigh : code);
}

// The value of a stored scale.
template <int S>
MX_HD float decode_scale(u32 byte) {
  if (S == F32) return float_of(byte);
  if (S == E8M0) return float_of(byte == 0 ? 0x00400000u : byte == 0xFF ? kNan : byte << 23);
#if MX_HAS_FP8_CVT
  return from_f16_number(e4m3x2_to_f16x2(byte & 0x7Fu) & 0xFFFFu);
#endif
  if ((byte & 0x7Fu) == 0x7Fu) return float_of(kNan);
  return fmul(float_of((byte & 0x7Fu) << 20), 0x1p120f);  // the fields of e4m3 are those of a float32, rebiased
}

// 1 / sf for the value of an e8m0 byte: the float32 quotient, from the exponent field.
MX_HD float reciprocal_of_power(float sf) {
  const u32 b = bits_of(sf);
  if (b - 0x00800000u < 0x7E800000u - 0x00800000u + 1u) return float_of(0x7F000000u - b);  // 2**-126 .. 2**126
  return float_of(b == 0x00400000u ? 0x7F000000u : b == 0x7F000000u ? 0x00400000u : kNan);
}

}  // namespace mx
