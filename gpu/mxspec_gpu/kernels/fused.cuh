// SiLU(gate) * up of 16-bit numbers, each of the two rounded to the input's type: what two elementwise kernels would hand over.
#pragma once
#include "transform.cuh"

namespace mx {

// x / (1 + exp(-x)) by the fast instructions. A denominator next to float32's end has a reciprocal that they would make zero: it is
// divided by 2**32 first, and the quotient then, both exact but in the result's own last place.
MX_HD float silu(float x) {
  const float below = fmul(fadd(1.0f, exp2_approx_ftz(fmul(x, -0x1.715476p+0f))), 0x1p-32f);
  return fmul(fmul(x, rcp_approx_ftz(below)), 0x1p-32f);
}

// Both elements of a word of gates and of ups.
template <int In>
MX_HD u32 silu_mul(u32 gate, u32 up) {
  const float lo = silu(half_of<In>(gate, 0)), hi = silu(half_of<In>(gate, 1));
  if (In == BFLOAT16) return mul_bf16x2(pack_bf16x2(lo, hi), up);
  const u32 s = pack_f16x2(lo, hi);
  return pack_f16x2(fmul(half_of<In>(s, 0), half_of<In>(up, 0)), fmul(half_of<In>(s, 1), half_of<In>(up, 1)));
}

// The lanes of a block for the plain way: the up of an element is `up` elements behind its gate.
template <int In>
struct FusedLanes {
  const u16* x;
  i64 first, up;
  MX_HD float operator[](int i) const { return half_of<In>(silu_mul<In>(x[first + i], x[first + up + i]), 0); }
};

}  // namespace mx
