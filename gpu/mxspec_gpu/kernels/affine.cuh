// The number of an affine code: q * s + b, or (q - z) * s, rounded where a contract of mxspec.affine says.
#pragma once
#include "decode8.cuh"

namespace mx {

enum AffineForm { WHOLE = 0, PRODUCTS = 1 };

// The nearest number of a format; float32 holds any.
template <int Held>
MX_HD float hold(float v) {
  if (Held == FLOAT16) return from_f16(pack_f16x2(v, 0.0f) & 0xFFFFu);
  if (Held == BFLOAT16) return from_bf16(pack_bf16x2(v, 0.0f) & 0xFFFFu);
  return v;
}

// a + b rounded to odd, so that it can be rounded once more to 22 bits or fewer.
MX_HD float add_to_odd(float a, float b) {
  const float total = fadd(a, b), back = fsub(total, a), lost = fadd(fsub(a, fsub(total, back)), fsub(b, back));
  const u32 bits = bits_of(total);
  // Infinities and NaN lose NaN.
  if (!(lost < 0.0f || lost > 0.0f) || (bits & 1)) return total;
  return float_of((lost > 0.0f) == (total > 0.0f) ? bits + 1 : bits - 1);
}

// q * s + b rounded to odd. A product beyond float32 is added anew, all of it 2**8 times smaller, which loses no bit of bfloat16.
MX_HD float fma_to_odd(float q, float s, float b) {
  const float sum = add_to_odd(fmul(q, s), b);
  if ((bits_of(sum) & 0x7F800000u) != 0x7F800000u) return sum;
  return fmul(add_to_odd(fmul(q, fmul(s, 0x1p-8f)), fmul(b, 0x1p-8f)), 256.0f);
}

// A code times a 16-bit scale is exact in float32, or beyond it. Of float32 scales only contracts in float32 are computed.
//   offset a bias: fused, q * s + b rounded once; else the product is rounded before, and the sum to float32 and then to the
//   format, as 16-bit arithmetic in float32 does.
//   offset a zero point: WHOLE, (q - z) * s rounded once; PRODUCTS, q * s - z * s with z * s rounded, and q * s unless fused.
template <bool Zero, int Held, int Form, bool Fused>
MX_HD float affine_value(float q, float s, float o) {
  if (Zero && Form == WHOLE) return hold<Held>(fmul(fsub(q, o), s));
  const float offset = Zero ? -hold<Held>(fmul(o, s)) : o;
  if (!Fused) return hold<Held>(fadd(hold<Held>(fmul(q, s)), offset));
  return Held == FLOAT32 ? ffma(q, s, offset) : hold<Held>(fma_to_odd(q, s, offset));
}

// Four-bit codes of a word.
MX_HD void split8(u32 codes, float q[8]) {
#pragma unroll
  for (int i = 0; i < 8; ++i) q[i] = (float)(codes >> (4 * i) & 15u);
}

// The number of a stored scale's or bias's bits.
template <int In>
MX_HD float as_float(u32 bits) {
  return In == FLOAT32 ? float_of(bits) : In == FLOAT16 ? from_f16(bits) : from_bf16(bits);
}

}  // namespace mx
