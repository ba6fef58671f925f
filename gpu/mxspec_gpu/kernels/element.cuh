// Scalars: float32 -> code and code -> float32 for every element and scale format, in integer arithmetic.
//
// This is the plain statement of the rules: kernels fall back on it, tests hold it to the model, and the fast encoders of
// encode8.cuh are held to it.
#pragma once
#include "platform.cuh"

namespace mx {

enum Element { E2M1, E2M3, E3M2, E4M3, E5M2, INT8, E8M0, UE4M3, F32 };
// Roundings of magnitudes; directed ones are resolved by the sign first (`magnitude_rule`).
enum Rounding { RNE, RNA, RNZ, RNU, RTZ, RTN, RTP };
enum MagnitudeRule { EVEN, TIES_AWAY, TIES_TO_ZERO, DOWN, UP };
enum Overflow { SATURATE, OWN, SATURATE_FINITE };

// What mxspec.formats says of a format.
template <int F>
struct Format;
#define MX_FORMAT(name, bits_, exponent, mantissa, bias_, signed_, zero, max_, inf, nan, twos)                          \
  template <>                                                                                                          \
  struct Format<name> {                                                                                                \
    static constexpr int bits = bits_, exponent_bits = exponent, mantissa_bits = mantissa, bias = bias_;               \
    static constexpr bool is_signed = signed_, has_zero = zero, twos_complement = twos;                                \
    static constexpr int max_code = max_, inf_code = inf, nan_code = nan;                                              \
    static constexpr u32 sign_bit = signed_ ? 1u << (bits_ - 1) : 0u;                                                  \
  };
//        name   bits e m bias signed zero  max   inf   nan  two's complement
MX_FORMAT(E2M1, 4, 2, 1, 1, true, true, 0x07, -1, -1, false)
MX_FORMAT(E2M3, 6, 2, 3, 1, true, true, 0x1F, -1, -1, false)
MX_FORMAT(E3M2, 6, 3, 2, 3, true, true, 0x1F, -1, -1, false)
MX_FORMAT(E4M3, 8, 4, 3, 7, true, true, 0x7E, -1, 0x7F, false)
MX_FORMAT(E5M2, 8, 5, 2, 15, true, true, 0x7B, 0x7C, 0x7F, false)
MX_FORMAT(INT8, 8, 0, 7, 0, true, true, 0x7F, -1, -1, true)
MX_FORMAT(E8M0, 8, 8, 0, 127, false, false, 0xFE, -1, 0xFF, false)
MX_FORMAT(UE4M3, 7, 4, 3, 7, false, true, 0x7E, -1, 0x7F, false)
#undef MX_FORMAT

template <int F>
MX_HD u32 join(u32 sign, u32 magnitude) {
  if (!Format<F>::is_signed || !sign) return magnitude;
  return Format<F>::twos_complement ? (0u - magnitude) & 0xFFu : magnitude | Format<F>::sign_bit;
}

MX_HD int magnitude_rule(int rounding, u32 sign) {
  switch (rounding) {
    case RNE: return EVEN;
    case RNA: return TIES_AWAY;
    case RNZ: return TIES_TO_ZERO;
    case RNU: return sign ? TIES_TO_ZERO : TIES_AWAY;
    case RTZ: return DOWN;
    case RTN: return sign ? UP : DOWN;
    default: return sign ? DOWN : UP;
  }
}

// A finite magnitude in units of the step of its place in the format: whole steps counted in codes, and what is over.
struct Steps {
  u32 code;         // the code of the neighbour nearer zero, as if the format went on
  u32 significand;  // 24 bits
  int shift;        // the rest is the low `shift` bits of the significand (all of it, and less than a step, from 25 on)
};

template <int F>
MX_HD Steps count_steps(u32 magnitude) {
  const int field = (int)(magnitude >> 23), e = field ? field : 1;
  const u32 significand = (magnitude & 0x7FFFFFu) | (field ? 0x800000u : 0u);
  // The least exponent field whose numbers have full precision in the format; below it the step stays.
  const int lowest = 127 - Format<F>::bias + (Format<F>::has_zero ? 1 : 0);
  const int place = Format<F>::exponent_bits == 0 || e < lowest ? lowest : e;
  const int shift = 23 - Format<F>::mantissa_bits + place - e;
  const u32 whole = shift > 24 ? 0u : shift >= 0 ? significand >> shift : significand << -shift;
  return {((u32)(place - lowest) << Format<F>::mantissa_bits) + whole, significand, shift};
}

MX_HD bool steps_up(const Steps& s, int rule) {
  if (s.shift <= 0) return false;
  const u64 rest = s.shift > 24 ? s.significand : s.significand & ((1u << s.shift) - 1u);
  if (rest == 0 || rule == DOWN) return false;
  if (rule == UP) return true;
  const u64 half = s.shift > 40 ? ~0ull : 1ull << (s.shift - 1);
  if (rest != half) return rest > half;
  return rule == EVEN ? (s.code & 1u) != 0 : rule == TIES_AWAY;
}

// Whether the integer rule of stochastic rounding steps up: floor(frac * 2**n) + r >= 2**n.
MX_HD bool steps_up_stochastic(const Steps& s, u32 random, int random_bits) {
  if (s.shift <= 0) return false;
  const u64 rest = s.shift > 24 ? s.significand : s.significand & ((1u << s.shift) - 1u);
  const u64 part = s.shift > 62 ? 0 : rest << random_bits >> s.shift;
  const u64 r = random_bits == 32 ? random : random & 0xFFu;
  return part + r >= 1ull << random_bits;
}

// Code of a magnitude beyond the largest finite one.
template <int F>
MX_HD u32 overflow_code(u32 sign, int overflow, bool infinite, bool toward_zero) {
  using T = Format<F>;
  const bool own = T::nan_code >= 0 && (overflow == OWN ? infinite || !toward_zero : overflow == SATURATE_FINITE && infinite);
  if (!own) return join<F>(sign, T::max_code);
  return join<F>(sign, T::inf_code >= 0 ? T::inf_code : T::nan_code);
}

template <int F>
MX_HD u32 finish(u32 sign, u32 code, bool beyond, int overflow, bool toward_zero) {
  if (beyond || code > (u32)Format<F>::max_code) return overflow_code<F>(sign, overflow, false, toward_zero);
  return join<F>(sign, code);
}

// e8m0 has no zero: its least code 2**-127 is a subnormal float32, all below it has that code too.
template <int F>
MX_HD u32 encode_e8m0_magnitude(u32 magnitude, int rule) {
  int e = (int)(magnitude >> 23);
  u32 fraction = magnitude & 0x7FFFFFu;
  if (e == 0) {  // 2**-127 is 0x00400000; numbers below it have no neighbour nearer zero
    if (magnitude <= 0x00400000u) return 0;
    fraction = (magnitude & 0x3FFFFFu) << 1;
  }
  const u32 half = 0x400000u;
  const bool up = rule == UP          ? fraction != 0
                  : rule == DOWN      ? false
                  : fraction != half  ? fraction > half
                  : rule == EVEN      ? (e & 1) != 0
                                      : rule == TIES_AWAY;
  return (u32)e + (up ? 1u : 0u);
}

// The code of any float32. nan_positive, nan_negative: codes of NaN by sign. Unsigned formats take the magnitude.
template <int F>
MX_HD u32 encode(float x, int rounding, int overflow, u32 nan_positive, u32 nan_negative) {
  const u32 b = bits_of(x), magnitude = b & ~kSign, sign = Format<F>::is_signed ? b >> 31 : 0u;
  if (magnitude > kInf) return b >> 31 ? nan_negative : nan_positive;
  if (magnitude == kInf) return overflow_code<F>(sign, overflow, true, false);
  const int rule = magnitude_rule(rounding, sign);
  if (F == E8M0) return finish<F>(sign, encode_e8m0_magnitude<F>(magnitude, rule), false, overflow, rule == DOWN);
  if (Format<F>::exponent_bits == 0 && magnitude >= 0x41000000u)  // int8 from 8 on: its step never grows
    return overflow_code<F>(sign, overflow, false, rule == DOWN);
  const Steps s = count_steps<F>(magnitude);
  const bool up = steps_up(s, rule);
  // Cut down to the largest code, a number may still lie beyond the largest value.
  const bool rest = s.shift > 0 && (s.shift > 24 ? s.significand : s.significand & ((1u << s.shift) - 1u)) != 0;
  const bool beyond = rule == DOWN && s.code == (u32)Format<F>::max_code && rest;
  return finish<F>(sign, s.code + (up ? 1u : 0u), beyond, overflow, rule == DOWN);
}

// Stochastic rounding by the integer rule, with 32 or 8 random bits; saturating.
template <int F>
MX_HD u32 encode_stochastic(float x, u32 random, int random_bits, u32 nan_positive, u32 nan_negative) {
  const u32 b = bits_of(x), magnitude = b & ~kSign, sign = Format<F>::is_signed ? b >> 31 : 0u;
  if (magnitude > kInf) return b >> 31 ? nan_negative : nan_positive;
  if (magnitude == kInf || (Format<F>::exponent_bits == 0 && magnitude >= 0x41000000u))
    return overflow_code<F>(sign, SATURATE, magnitude == kInf, false);
  if (F == E8M0) {
    if (magnitude <= 0x00400000u) return 0;
    const u64 fraction = magnitude >> 23 ? magnitude & 0x7FFFFFu : (magnitude & 0x3FFFFFu) << 1;
    const u64 r = random_bits == 32 ? random : random & 0xFFu;
    return finish<F>(0, (magnitude >> 23) + ((fraction << random_bits >> 23) + r >= 1ull << random_bits), false, SATURATE, false);
  }
  const Steps s = count_steps<F>(magnitude);
  return finish<F>(sign, s.code + (steps_up_stochastic(s, random, random_bits) ? 1u : 0u), false, SATURATE, false);
}

// The value of a code; NaN codes give 7fc00000.
template <int F>
MX_HD float decode(u32 code) {
  using T = Format<F>;
  const u32 sign = T::is_signed && (code & T::sign_bit) ? kSign : 0u;
  const u32 magnitude = !sign ? code : T::twos_complement ? (256u - code) : code ^ T::sign_bit;
  if (!T::twos_complement && magnitude > (u32)T::max_code)
    return float_of(magnitude == (u32)T::inf_code ? sign | kInf : kNan);
  const u32 field = magnitude >> T::mantissa_bits, fraction = magnitude & ((1u << T::mantissa_bits) - 1u);
  if (T::exponent_bits == 0 || (field == 0 && T::has_zero)) {
    // A whole number of the smallest value, which is a power of two with a normal float32.
    const float unit = float_of((u32)(127 + 1 - T::bias - T::mantissa_bits) << 23);
    return float_of(bits_of(fmul((float)magnitude, unit)) | sign);
  }
  const int e = (int)field - T::bias + 127;
  if (e <= 0) return float_of(0x00400000u);  // e8m0's 2**-127
  return float_of(sign | (u32)e << 23 | fraction << (23 - T::mantissa_bits));
}

}  // namespace mx
