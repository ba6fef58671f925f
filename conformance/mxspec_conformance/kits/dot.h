/* Sums of products as the fused units of tensor cores add them, in C99, integers alone. Written by mxspec @VERSION@. Code: Apache-2.0.
 *
 * A step adds up to `group` exact products and the running sum: each is rounded to a multiple of 2^(e - fraction), e the largest of their exponents;
 * these are added exactly, and the sum is rounded to `output` bits below its leading one. The exponent of a product is that of its operands as
 * hardware sees it: a subnormal has the smallest one of its format. Products that are zero take no part. No sum is -0.
 * The scale byte 00 of E8M0, 2^-127, is aligned as if it were a subnormal float32, by the exponent -126: so does mxspec.dot; no chip was measured there. */
#ifndef MXSPEC_DOT_H
#define MXSPEC_DOT_H
#include "mxspec_c99.h"

enum { MX_CUT, MX_NEAREST, MX_STICKY }; /* toward zero; to nearest even; toward zero, and the last bit set if anything was cut */
typedef struct {
  const char *name;
  int group;      /* products in a step, 1 to 64; group + 1 is at most 2^(59 - fraction), as 63 bits hold their sum */
  int fraction;   /* bits kept below the largest exponent: right of the binary point; the leading one, and one above it for products from 2 up, are not counted */
  int aligned;    /* how addends are rounded */
  int output;     /* bits of the running sum below its leading one, at most 55; 23: as float32 */
  int normalised; /* how the sum of a step is rounded */
  int least;      /* its smallest normal exponent */
  int most;       /* its largest one: a sum beyond it is infinite after each step; 9999: only the result is, as float32 */
  int promoted;   /* after so many products the sum goes to a float32 sum, and starts again; 0: never */
} mx_unit;

/* Those of mxspec.dot.ACCUMULATORS that add groups; a chain adds one exact product after the other, rounded to nearest even. */
static const mx_unit mx_units[] = {
@ROWS@
};

typedef struct { mx_real value; int32_t exponent; } mx_term;

static inline uint64_t mx_rounded(mx_real a, int32_t place, int how) {
  int rest;
  uint64_t n = mx_count(a, place, &rest);
  if (how == MX_NEAREST) return n + (rest == 3 || (rest == 2 && (n & 1)));
  return how == MX_STICKY ? n | (uint64_t)(rest != 0) : n;
}

/* One step: the running sum after n products. */
static inline mx_real mx_step(const mx_unit *u, const mx_term *terms, int n, mx_real sum) {
  mx_real other = mx_make(MX_FINITE, 0, 0, 0);
  int32_t top = u->least, place;
  int64_t total = 0;
  int i;
  for (i = 0; i <= n; i++) {
    mx_real value = i < n ? terms[i].value : sum;
    int32_t exponent = i < n ? terms[i].exponent : mx_exponent(sum);
    if (value.kind != MX_FINITE) other = mx_add(other, value);
    else if (value.sig && exponent > top) top = exponent;
  }
  if (other.kind != MX_FINITE) return other;
  place = top - u->fraction;
  for (i = 0; i <= n; i++) {
    mx_real value = i < n ? terms[i].value : sum;
    int64_t addend = (int64_t)mx_rounded(value, place, u->aligned);
    total += value.sign ? -addend : addend;
  }
  sum = mx_make(MX_FINITE, total < 0, (uint64_t)(total < 0 ? -total : total), place);
  if (!sum.sig) return sum;
  place = (mx_exponent(sum) > u->least ? mx_exponent(sum) : u->least) - u->output;
  sum = mx_make(MX_FINITE, sum.sign, mx_rounded(sum, place, u->normalised), place);
  if (!sum.sig) sum.sign = 0;
  return sum.sig && mx_exponent(sum) > u->most ? mx_make(MX_INF, sum.sign, 0, 0) : sum;
}

/* An element under its block's scale. */
static inline mx_term mx_operand(const mx_rules *r, uint8_t code, uint8_t scale) {
  mx_real q = mx_value(code, r->element), s = mx_value(scale, r->scale);
  int32_t own = 1 - r->element->bias, above = 1 - r->scale->bias;
  mx_term term;
  if (q.sig && mx_exponent(q) > own) own = mx_exponent(q);
  if (s.sig && mx_exponent(s) > above) above = mx_exponent(s);
  term.value = mx_mul(q, s), term.exponent = own + above;
  return term;
}

/* The sum of k products of two operands, as float32 bits, without tensor scales; NaN is 7fc00000. a, b: any rule of the operand's format. */
static inline uint32_t mx_dot(const mx_unit *u, const mx_rules *a, const uint8_t *a_codes, const uint8_t *a_scales, const mx_rules *b, const uint8_t *b_codes,
                              const uint8_t *b_scales, int k) {
  mx_real sum = mx_make(MX_FINITE, 0, 0, 0), promoted = sum;
  mx_term terms[64];
  int start, i;
  for (start = 0; start < k; start += u->group) {
    for (i = 0; i < u->group && start + i < k; i++) {
      int at = start + i;
      mx_term x = mx_operand(a, a_codes[at], a_scales[at / a->k]), y = mx_operand(b, b_codes[at], b_scales[at / b->k]);
      terms[i].value = mx_mul(x.value, y.value), terms[i].exponent = x.exponent + y.exponent;
    }
    sum = mx_step(u, terms, i, sum);
    if (u->promoted && ((start + u->group) % u->promoted == 0 || start + i == k))
      promoted = mx_as_f32(mx_add(promoted, sum)), sum = mx_make(MX_FINITE, 0, 0, 0);
  }
  return mx_bits(u->promoted ? promoted : sum);
}
#endif
