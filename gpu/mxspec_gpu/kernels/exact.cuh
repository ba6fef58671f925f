// Numbers as float64, exactly, and the lowest bit of each: what an exact product is made of.
#pragma once
#include "decode8.cuh"

namespace mx {

// The exponent of zero's lowest bit, and of what is no number: it bounds nothing.
constexpr int kNoBit = 8192;
// Elements that are looked at together, as mxspec.dot does.
constexpr int kRun = 16;

MX_HD u64 bits_of(double x) {
#if MX_CHIP
  return (u64)__double_as_longlong(x);
#else
  u64 b;
  memcpy(&b, &x, 8);
  return b;
#endif
}

MX_HD double double_of(u64 b) {
#if MX_CHIP
  return __longlong_as_double((i64)b);
#else
  double x;
  memcpy(&x, &b, 8);
  return x;
#endif
}

// The exponent of the lowest set bit.
MX_HD int lowest_bit(double x) {
  const u64 b = bits_of(x), fraction = b & 0xFFFFFFFFFFFFFull;
  const int field = (int)(b >> 52 & 0x7FF);
  if (field == 0x7FF || (b << 1) == 0) return kNoBit;
  const u64 whole = field ? fraction | 1ull << 52 : fraction;
#if MX_CHIP
  const int zeros = __ffsll((i64)whole) - 1;
#else
  const int zeros = __builtin_ctzll(whole);
#endif
  return zeros + (field ? field : 1) - 1075;
}

// Whether float64 adds products exactly in any order: all are multiples of 2**unit, and `magnitude` is what float64 finds as
// the sum of their magnitudes. NaN and infinities are the same in any order, too.
MX_HD bool is_certain(double magnitude, int unit) {
  const int exponent = unit + 53 < 1023 ? unit + 53 : 1023;
  return magnitude < double_of((u64)(exponent + 1023) << 52) || (bits_of(magnitude) >> 52 & 0x7FF) == 0x7FF;
}

}  // namespace mx
