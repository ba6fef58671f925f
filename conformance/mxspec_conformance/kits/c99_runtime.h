#ifndef MXSPEC_C99_H
#define MXSPEC_C99_H
#include <stddef.h>
#include <stdint.h>

/* A number: sig * 2^exp, sig normalized to bit 63; zero has sig 0. Bit 0 of sig also stands for all that was cut off below it ("jammed"): no
 * format here has more than 25 bits, so that comparisons and roundings stay exact. */
enum { MX_FINITE, MX_INF, MX_NAN };
typedef struct { uint64_t sig; int32_t exp; uint8_t sign, kind; } mx_real;

static inline mx_real mx_make(uint8_t kind, uint8_t sign, uint64_t sig, int32_t exp) {
  mx_real r;
  r.kind = kind, r.sign = sign, r.sig = sig, r.exp = exp;
  if (kind == MX_FINITE && sig)
    while (!(r.sig >> 63)) r.sig <<= 1, r.exp--;
  return r;
}

/* Shift right, what falls out jammed into bit 0. */
static inline uint64_t mx_jam(uint64_t sig, int32_t by) {
  if (by <= 0) return sig;
  if (by > 63) return sig != 0;
  return sig >> by | (uint64_t)((sig << (64 - by)) != 0);
}

static inline mx_real mx_f32(uint32_t bits) {
  uint8_t sign = (uint8_t)(bits >> 31);
  uint32_t field = bits >> 23 & 255, part = bits & 0x7FFFFF;
  if (field == 255) return mx_make(part ? MX_NAN : MX_INF, sign, 0, 0);
  return mx_make(MX_FINITE, sign, field ? part | 0x800000 : part, (int32_t)(field ? field : 1) - 150);
}

static inline int32_t mx_exponent(mx_real a) { return a.exp + 63; } /* floor(log2) of a number that is not zero */
static inline int mx_is_zero(mx_real a) { return a.kind == MX_FINITE && !a.sig; }
static inline int mx_is_power(mx_real a) { return a.sig == (uint64_t)1 << 63; }

/* Magnitudes: -1, 0, 1; no NaN. */
static inline int mx_compare_magnitudes(mx_real a, mx_real b) {
  if (a.kind != b.kind) return a.kind == MX_INF ? 1 : -1;
  if (a.kind == MX_INF || (!a.sig && !b.sig)) return 0;
  if (!a.sig || !b.sig) return a.sig ? 1 : -1;
  if (a.exp != b.exp) return a.exp < b.exp ? -1 : 1;
  return a.sig == b.sig ? 0 : a.sig < b.sig ? -1 : 1;
}
static inline int mx_less(mx_real a, mx_real b) {
  if (a.kind == MX_NAN || b.kind == MX_NAN || (mx_is_zero(a) && mx_is_zero(b))) return 0;
  if (a.sign != b.sign) return a.sign;
  return a.sign ? mx_compare_magnitudes(b, a) < 0 : mx_compare_magnitudes(a, b) < 0;
}
static inline int mx_equal(mx_real a, mx_real b) { return a.kind != MX_NAN && b.kind != MX_NAN && !mx_less(a, b) && !mx_less(b, a); }

/* floor(|a| / 2^lsb), and how the rest lies to one half: 0 none, 1 below, 2 equal, 3 above. */
static inline uint64_t mx_count(mx_real a, int32_t lsb, int *rest) {
  int32_t by = lsb - a.exp;
  uint64_t cut, half;
  *rest = 0;
  if (!a.sig) return 0;
  if (by <= 0) return (uint64_t)1 << 62; /* 2^63 and more: more than any format has, and less than what turns negative */
  if (by > 64) return *rest = 1, (uint64_t)0;
  half = (uint64_t)1 << (by - 1), cut = by == 64 ? a.sig : a.sig & (((uint64_t)1 << by) - 1);
  *rest = !cut ? 0 : cut < half ? 1 : cut == half ? 2 : 3;
  return by == 64 ? 0 : a.sig >> by;
}

/* Rounded to nearest even in a float format: bits of its significand, exponent of its smallest step, of its largest binade. */
static inline mx_real mx_round(mx_real a, int32_t bits, int32_t smallest, int32_t largest) {
  int rest;
  int32_t lsb;
  uint64_t n;
  if (a.kind != MX_FINITE || !a.sig) return a;
  lsb = a.exp + 64 - bits;
  if (lsb < smallest) lsb = smallest;
  n = mx_count(a, lsb, &rest);
  n += rest == 3 || (rest == 2 && (n & 1));
  a = mx_make(MX_FINITE, a.sign, n, lsb);
  return a.sig && mx_exponent(a) > largest ? mx_make(MX_INF, a.sign, 0, 0) : a;
}
static inline mx_real mx_as_f32(mx_real a) { return mx_round(a, 24, -149, 127); }
static inline mx_real mx_as_bf16(mx_real a) { return mx_round(mx_as_f32(a), 8, -133, 127); }
static inline mx_real mx_as_f16(mx_real a) { return mx_round(mx_as_f32(a), 11, -24, 15); }
static inline mx_real mx_flush(mx_real a) { return a.kind == MX_FINITE && a.sig && mx_exponent(a) < -126 ? mx_make(MX_FINITE, a.sign, 0, 0) : a; }
static inline mx_real mx_as_ftz(mx_real a) { /* tiny: below 2^-126 if rounded to 24 bits with any exponent */
  mx_real r = mx_round(a, 24, -100000, 100000);
  return a.kind == MX_FINITE && a.sig && mx_exponent(r) < -126 ? mx_make(MX_FINITE, a.sign, 0, 0) : mx_as_f32(a);
}

/* Exact operations. */
static inline mx_real mx_abs(mx_real a) { return a.sign = 0, a; }
static inline mx_real mx_negate(mx_real a) { return a.sign ^= 1, a; }
static inline mx_real mx_mul(mx_real a, mx_real b) {
  uint8_t sign = a.sign ^ b.sign;
  uint64_t al, ah, bl, bh, low, mid, high;
  if (a.kind == MX_NAN || b.kind == MX_NAN) return a.kind == MX_NAN ? a : b;
  if (a.kind == MX_INF || b.kind == MX_INF) return mx_make(mx_is_zero(a) || mx_is_zero(b) ? MX_NAN : MX_INF, sign, 0, 0);
  al = a.sig & 0xFFFFFFFF, ah = a.sig >> 32, bl = b.sig & 0xFFFFFFFF, bh = b.sig >> 32;
  low = al * bl, mid = ah * bl + (low >> 32), high = ah * bh + (mid >> 32);
  mid = (mid & 0xFFFFFFFF) + al * bh, high += mid >> 32;
  return mx_make(MX_FINITE, sign, high | (uint64_t)(((mid << 32) | (low & 0xFFFFFFFF)) != 0), a.exp + b.exp + 64);
}
static inline mx_real mx_div(mx_real a, mx_real b) {
  uint8_t sign = a.sign ^ b.sign;
  uint64_t r, q;
  int i, n;
  if (a.kind == MX_NAN || b.kind == MX_NAN) return a.kind == MX_NAN ? a : b;
  if (a.kind == MX_INF) return mx_make(b.kind == MX_INF ? MX_NAN : MX_INF, sign, 0, 0);
  if (b.kind == MX_INF) return mx_make(MX_FINITE, sign, 0, 0);
  if (!b.sig) return mx_make(a.sig ? MX_INF : MX_NAN, sign, 0, 0);
  if (!a.sig || mx_is_power(b)) return mx_make(MX_FINITE, sign, a.sig, a.exp - b.exp - 63);
  q = a.sig >= b.sig, r = q ? a.sig - b.sig : a.sig, n = q ? 63 : 64;
  for (i = 0; i < n; i++) {
    int carry = (int)(r >> 63);
    r <<= 1, q <<= 1;
    if (carry || r >= b.sig) r -= b.sig, q |= 1;
  }
  return mx_make(MX_FINITE, sign, q | (uint64_t)(r != 0), a.exp - b.exp - n);
}
static inline mx_real mx_add(mx_real a, mx_real b) {
  uint64_t x, y;
  if (a.kind == MX_NAN || b.kind == MX_NAN) return a.kind == MX_NAN ? a : b;
  if (a.kind == MX_INF || b.kind == MX_INF) return a.kind == b.kind && a.sign != b.sign ? mx_make(MX_NAN, 0, 0, 0) : a.kind == MX_INF ? a : b;
  if (!a.sig && !b.sig) return mx_make(MX_FINITE, a.sign & b.sign, 0, 0);
  if (!a.sig || !b.sig) return a.sig ? a : b;
  if (mx_compare_magnitudes(a, b) < 0) { mx_real t = a; a = b, b = t; }
  x = a.sig >> 1, y = mx_jam(b.sig >> 1, a.exp - b.exp);
  x = a.sign == b.sign ? x + y : x - y;
  return mx_make(MX_FINITE, x ? a.sign : 0, x, a.exp + 1);
}
static inline mx_real mx_sub(mx_real a, mx_real b) { return mx_add(a, b.kind == MX_NAN ? b : mx_negate(b)); }
static inline mx_real mx_min(mx_real a, mx_real b) { return a.kind == MX_NAN ? a : b.kind == MX_NAN || mx_less(b, a) ? b : a; }
static inline mx_real mx_max(mx_real a, mx_real b) { return a.kind == MX_NAN ? a : b.kind == MX_NAN || mx_less(a, b) ? b : a; }
static inline mx_real mx_fmin(mx_real a, mx_real b) { return a.kind == MX_NAN ? b : b.kind == MX_NAN ? a : mx_min(a, b); }
static inline mx_real mx_fmax(mx_real a, mx_real b) { return a.kind == MX_NAN ? b : b.kind == MX_NAN ? a : mx_max(a, b); }
static inline mx_real mx_ceil_pow2(mx_real a) {
  if (a.kind != MX_FINITE || !a.sig || mx_is_power(a)) return a;
  return mx_make(MX_FINITE, a.sign, (uint64_t)1 << 63, a.exp + 1);
}

/* NVIDIA's rcp.approx.ftz.f32 as measured on an H200, all 2^23 significands: a quadratic in each of 128 pieces, whose square leaves out the products
 * of two bits below 2^17. */
@RCP@
static inline mx_real mx_rcp(mx_real a) {
  uint64_t square = 0, y;
  const uint32_t *piece;
  uint32_t w, i;
  a = mx_flush(a);
  if (a.kind != MX_FINITE || !a.sig) return mx_div(mx_f32(0x3F800000u), a);
  piece = mx_rcp_pieces[a.sig >> 56 & 127], w = (uint32_t)(a.sig >> 40 & 0xFFFF);
  for (i = 0; i < 16; i++) {
    uint32_t above = i < 8 ? 16 - i : i + 1;
    if (w >> i & 1) square += ((uint64_t)(w >> above << above) << (i + 1)) + (i < 9 ? 0 : (uint64_t)1 << 2 * i);
  }
  y = ((uint64_t)piece[0] << 14) - 2 * (uint64_t)piece[1] * w + 2 * (uint64_t)piece[2] * (square >> 17) + @BIAS@;
  return mx_flush(mx_make(MX_FINITE, a.sign, y >> 16, -24 - mx_exponent(a)));
}

/* Rounding rules of magnitudes, for numbers from 0 on and below it. */
enum { MX_EVEN, MX_AWAY, MX_TO_ZERO, MX_DOWN, MX_UP };
static inline uint64_t mx_steps(mx_real a, int32_t lsb, int rule) {
  int rest;
  uint64_t n = mx_count(a, lsb, &rest);
  switch (rule) {
    case MX_EVEN: return n + (rest == 3 || (rest == 2 && (n & 1)));
    case MX_AWAY: return n + (rest >= 2);
    case MX_TO_ZERO: return n + (rest == 3);
    case MX_UP: return n + (rest != 0);
    default: return n;
  }
}

/* A scalar format: bits of exponent and mantissa, bias, largest magnitude code, first NaN (0: none), infinity (0: none), whether signed. */
typedef struct { int e, m, bias, top, nan, inf, is_signed; } mx_scalar;

/* The exponent of the step around a magnitude, and the code of the binade's first step less its count. */
static inline int32_t mx_step_of(mx_real a, const mx_scalar *f, int64_t *base) {
  int32_t low = 1 - f->bias, at = a.sig && mx_exponent(a) > low ? mx_exponent(a) : low;
  if (!f->e) return *base = 0, -f->m + 1;
  return *base = (int64_t)(at - low) * ((int64_t)1 << f->m), at - f->m;
}
/* The magnitude code, not limited to the format's range. */
static inline int64_t mx_code(mx_real a, const mx_scalar *f, int rule) {
  int64_t base;
  int32_t lsb = mx_step_of(a, f, &base);
  if (a.sig && mx_exponent(a) > 300) return INT32_MAX;
  return base + (int64_t)mx_steps(a, lsb, rule);
}
static inline mx_real mx_value(int code, const mx_scalar *f) {
  int sign_bit = 1 << (f->e + f->m), low = code & (sign_bit - 1), field = low >> f->m, part = low & ((1 << f->m) - 1);
  uint8_t sign = (uint8_t)(f->is_signed && (code & sign_bit));
  if (!f->e) return code & 128 ? mx_make(MX_FINITE, 1, (uint64_t)(256 - code), -6) : mx_make(MX_FINITE, 0, (uint64_t)code, -6);
  if (!f->is_signed && !f->m) return code == 255 ? mx_make(MX_NAN, 0, 0, 0) : mx_make(MX_FINITE, 0, 1, code - 127); /* e8m0 */
  if (f->nan && low >= f->nan) return mx_make(MX_NAN, sign, 0, 0);
  if (f->inf && low == f->inf) return mx_make(MX_INF, sign, 0, 0);
  return mx_make(MX_FINITE, sign, (uint64_t)(field ? part + (1 << f->m) : part), (field ? field : 1) - f->bias - f->m);
}

@LOG2@
/* What expressions are evaluated with. */
typedef struct { mx_real x, amax, tmax, S, g, sf, q, M, scaled, y; } mx_env;
typedef mx_real (*mx_expression)(const mx_env *v);

enum { MX_STEP_FLOOR, MX_STEP_CEIL, MX_STEP_HALF_UP, MX_STEP_ENCODE, MX_STEP_LOG2F_FLOOR, MX_STEP_LOG2F_CEIL, MX_STEP_LOG2BF16_FLOOR, MX_STEP_GGML_UE4M3 };
enum { MX_SUM_OF_SQUARES, MX_SUM, MX_LARGEST };
enum { MX_AMAX_PROPAGATE, MX_AMAX_SKIP, MX_AMAX_SKIP_UNLESS_ALL, MX_AMAX_SKIP_UNLESS_ODD };
enum { MX_ZERO_SIGNED, MX_ZERO_PLUS, MX_ZERO_MINUS_UNLESS_POSITIVE, MX_ZERO_PLUS_UNLESS_UNDERFLOW };
enum { MX_NO_TENSOR, MX_TMAX, MX_S, MX_G };

/* A profile in one format, with or without a tensor scale. */
typedef struct mx_rules mx_rules;
struct mx_rules {
  const char *profile, *format;
  int k, tensor; /* which leaf the tensor scale binds */
  const mx_scalar *element, *scale;
  mx_expression value, scaled, dequantize, normalize;
  mx_expression error; /* of a candidate code, where codes are found by search */
  void (*derive)(mx_env *v);
  const mx_rules *other; /* a second scale rule, tried and kept if its error is smaller */
  mx_expression lane_error;
  int norm, halves, total;
  int step, rounding[2], offset, half_bits, wraps, low, high, on_zero, on_inf, on_nan, amax_nan, flush;
  int round_codes[2], over[2], over_inf[2], nan[2], zero, lowest, invalid_sign, under_nan, half_floor, binade, spills;
};

static inline int mx_limit(int64_t n, int low, int high) { return n < low ? low : n > high ? high : (int)n; }

/* floor(log2 v) with the logarithm rounded: from table[e + 150] on, the significand of what lies below 2^e gives e already; 0: never. */
static inline int32_t mx_log2_floor(mx_real v, const uint64_t *table) {
  int32_t e = mx_exponent(v) + 1;
  return table[e + 150] && v.sig >= table[e + 150] ? e : e - 1;
}

/* ggml's encoder of ue4m3: half up on one bit, subnormals never reach 08, 7E from 248 on. */
static inline int mx_ggml_ue4m3(mx_real v) {
  int rest;
  int32_t e = mx_exponent(v) + 7;
  uint64_t n;
  if (e > 15) return 0x7E;
  if (e <= 0) {
    v.exp += 9;
    n = mx_count(mx_as_f32(mx_add(v, mx_make(MX_FINITE, 0, 1, -1))), 0, &rest);
    return n > 7 ? 7 : (int)n;
  }
  n = mx_count(v, e - 10, &rest);
  e = e * 8 + (int32_t)n + (rest >= 2) - 8;
  return e >= 15 * 8 ? 0x7E : e;
}

/* The scale byte of the scale expression's value. */
static inline int mx_scale(const mx_rules *r, mx_real v) {
  int64_t e;
  if (v.kind == MX_NAN) return r->on_nan;
  if (v.kind == MX_INF) return r->on_inf;
  if (!v.sig) return r->on_zero;
  v.sign = 0;
  if (r->step == MX_STEP_GGML_UE4M3) return mx_ggml_ue4m3(v);
  if (r->step == MX_STEP_ENCODE && r->scale->m) return mx_limit(mx_code(v, r->scale, r->rounding[0]), r->low, r->high < r->scale->top ? r->high : r->scale->top);
  e = mx_exponent(v);
  if (r->step == MX_STEP_ENCODE) { /* powers of two: which way, and ties at 1.5 */
    uint64_t tie = (uint64_t)3 << 62;
    int up = r->rounding[0] == MX_UP ? !mx_is_power(v) : r->rounding[0] == MX_DOWN ? 0 : v.sig > tie;
    if (v.sig == tie && r->rounding[0] != MX_UP && r->rounding[0] != MX_DOWN) up = r->rounding[0] == MX_AWAY || (r->rounding[0] == MX_EVEN && ((e + 127) & 1));
    return mx_limit(e + up + 127, r->low, r->high);
  }
  if (r->step == MX_STEP_CEIL) e += !mx_is_power(v);
  if (r->step == MX_STEP_LOG2F_FLOOR) e = mx_log2_floor(v, mx_log2f_up);
  if (r->step == MX_STEP_LOG2BF16_FLOOR) e = mx_log2_floor(v, mx_log2bf16_up);
  if (r->step == MX_STEP_LOG2F_CEIL) e += !mx_is_power(v) && v.sig > mx_log2f_down[e + 150];
  if (r->step == MX_STEP_HALF_UP) e += v.sig >= ~(((uint64_t)1 << (63 - r->half_bits)) - 1);
  e += r->offset + r->scale->bias;
  if (r->wraps) return (int)((e > r->high ? r->high : e) & 255);
  return mx_limit(e, r->low, r->high);
}

/* The code of one scaled element; v holds it and all that the error of a candidate may ask for. */
static inline int mx_search(const mx_rules *r, mx_env v) {
  int code, best = 0, count = 1 << (r->element->e + r->element->m + (r->element->e ? 1 : 0));
  mx_real least;
  v.q = mx_value(0, r->element), least = r->error(&v);
  for (code = 1; code < count; code++) {
    mx_real error;
    v.q = mx_value(code, r->element), error = r->error(&v);
    if (mx_less(error, least)) least = error, best = code;
  }
  return best;
}

/* The code of one scaled element. */
static inline int mx_element(const mx_rules *r, mx_real scaled, mx_real x, int scale_is_nan) {
  const mx_scalar *f = r->element;
  int sign = scaled.sign, rule, sign_bit = 1 << (f->e + f->m), code;
  mx_real cut = scaled;
  int64_t n, base;
  if (scaled.kind == MX_NAN) return r->nan[x.kind == MX_NAN ? x.sign : scale_is_nan ? 0 : r->invalid_sign];
  if (scaled.kind == MX_INF) return !f->e && sign && r->lowest == -128 ? 0x80 : r->over_inf[sign];
  rule = r->round_codes[sign];
  if (r->binade && scaled.sig) { /* cut to the step of the binade that a rounded logarithm puts it in */
    int rest;
    int32_t at = mx_log2_floor(scaled, mx_log2f_up), low = 1 - f->bias;
    int32_t lsb = (at > low ? at : low) - f->m;
    cut = mx_make(MX_FINITE, scaled.sign, mx_count(scaled, lsb, &rest), lsb), rule = MX_EVEN;
  }
  if (r->half_floor) { /* floor(steps + 1/2), the sum rounded to float32, bfloat16 or float16 */
    int rest;
    int32_t lsb = mx_step_of(scaled, f, &base);
    mx_real steps = scaled, sum;
    uint64_t count = mx_count(scaled, lsb, &rest);
    steps.sign = 0, steps.exp -= lsb;
    sum = mx_add(steps, mx_make(MX_FINITE, 0, 1, -1));
    sum = r->half_floor == 1 ? mx_as_f32(sum) : r->half_floor == 2 ? mx_as_bf16(sum) : mx_as_f16(sum);
    if (sum.kind == MX_INF || (sum.sig && mx_exponent(sum) > 60)) n = f->top;
    else { int ignored; n = base + (int64_t)mx_count(sum, 0, &ignored) - (rule == MX_EVEN && rest == 2 && !(count & 1)); }
    if (n > f->top) n = f->top;
  } else {
    n = mx_code(cut, f, rule);
    if (!f->e && sign && r->lowest == -128) return n == 0 ? 0 : (int)(256 - (n > 128 ? 128 : n));
    if (n > f->top || (rule == MX_DOWN && mx_compare_magnitudes(cut, mx_value(f->top, f)) > 0)) {
      if (rule != MX_DOWN) return r->over[sign];
      n = f->top;
    }
  }
  code = (int)n;
  if (!f->e) return sign && code ? 256 - code : code;
  if (!code) {
    if (r->zero == MX_ZERO_PLUS || (r->zero == MX_ZERO_PLUS_UNLESS_UNDERFLOW && !scaled.sig)) return 0;
    if (r->zero == MX_ZERO_MINUS_UNLESS_POSITIVE && !scaled.sig) return sign_bit;
  }
  return sign ? code | sign_bit : code;
}

static inline void mx_bind(const mx_rules *r, uint32_t tensor_scale, mx_env *v) {
  mx_real given = mx_f32(tensor_scale);
  v->x = v->amax = v->sf = v->q = v->tmax = v->S = v->g = v->scaled = v->y = mx_make(MX_FINITE, 0, 0, 0);
  v->M = mx_value(r->element->top, r->element);
  if (r->tensor == MX_TMAX) v->tmax = given;
  if (r->tensor == MX_S) v->S = given;
  if (r->tensor == MX_G) v->g = given;
  if (r->derive) r->derive(v);
}

/* Eight bits of a bfloat16's fields; a value has no upper end, and what lies beyond four bits spills into the next lane. */
static inline int mx_fields(mx_real a) {
  int rest;
  int32_t at, step;
  uint64_t n;
  mx_real value;
  if (a.kind != MX_FINITE) return 0x0B;
  at = a.sig ? mx_exponent(a) : -1, step = at < 1 ? -1 : at < 2 ? 0 : 1;
  n = mx_count(a, step, &rest);
  value = at > 40 ? mx_abs(a) : mx_make(MX_FINITE, 0, n + (rest == 3 || (rest == 2 && (n & 1))), step);
  if (!value.sig) return a.sign << 3;
  at = mx_exponent(value);
  return (int)(((uint32_t)a.sign << 3 | (uint32_t)(at + 1) << 1 | (uint32_t)(at == -1 || value.sig >> 62 == 3)) & 255);
}

static inline mx_real mx_total(const mx_rules *r, const mx_real *errors, int n) {
  mx_real total = mx_make(MX_FINITE, 0, 0, 0);
  int i;
  for (i = 0; i < n; i++) total = r->norm == MX_LARGEST ? mx_max(total, errors[i]) : mx_as_f32(mx_add(total, errors[i]));
  return total;
}

/* Codes and scale of one block by one scale rule; its error, where a second one is tried. */
static inline mx_real mx_try(const mx_rules *r, const mx_rules *by, mx_env v, const mx_real *in, uint8_t *codes, uint8_t *scale) {
  mx_real errors[32], total = mx_make(MX_FINITE, 0, 0, 0);
  int i, n = r->k;
  *scale = (uint8_t)mx_scale(by, by->value(&v));
  v.sf = mx_value(*scale, r->scale);
  for (i = 0; i < r->k; i++) {
    v.x = in[i];
    if (v.sf.kind == MX_NAN && r->under_nan >= 0) { codes[i] = (uint8_t)r->under_nan; continue; }
    v.scaled = r->scaled(&v);
    codes[i] = (uint8_t)(r->spills ? mx_fields(v.scaled) : r->error ? mx_search(r, v) : mx_element(r, v.scaled, in[i], v.sf.kind == MX_NAN));
  }
  if (r->spills && !(v.sf.kind == MX_NAN && r->under_nan >= 0))
    for (i = 0; i < r->k; i += 2) codes[i + 1] = (uint8_t)((codes[i + 1] | codes[i] >> 4) & 15), codes[i] &= 15;
  for (i = 0; r->other && i < r->k; i++) v.x = in[i], v.q = mx_value(codes[i], r->element), v.y = r->dequantize(&v), errors[i] = r->lane_error(&v);
  if (!r->other) return total;
  if (r->halves)
    for (n /= 2, i = 0; i < n; i++) errors[i] = r->norm == MX_LARGEST ? mx_max(errors[i], errors[i + n]) : mx_as_f32(mx_add(errors[i], errors[i + n]));
  total = mx_total(r, errors, n);
  return r->total == 1 ? mx_as_f32(total) : r->total == 2 ? mx_as_bf16(total) : r->total == 3 ? mx_as_f16(total) : total;
}

/* Quantize one block. x: k float32 by their bits; tensor_scale: likewise, in the profile's own kind, not looked at where it takes none. */
static inline void mx_quantize(const mx_rules *r, const uint32_t *x, uint32_t tensor_scale, uint8_t *codes, uint8_t *scale) {
  mx_env v;
  mx_real in[32], amax, first;
  int i, numbers = 0, odd = 0, nan_seen = 0;
  mx_bind(r, tensor_scale, &v);
  amax = mx_make(MX_FINITE, 0, 0, 0);
  for (i = 0; i < r->k; i++) {
    in[i] = mx_f32(x[i]);
    if (r->flush) in[i] = mx_flush(in[i]);
    if (r->normalize) v.x = in[i], in[i] = r->normalize(&v);
    if (in[i].kind == MX_NAN) { nan_seen = 1; continue; }
    numbers++, odd += i & 1;
    if (mx_less(amax, mx_abs(in[i]))) amax = mx_abs(in[i]);
  }
  if (nan_seen && (r->amax_nan == MX_AMAX_PROPAGATE || (r->amax_nan == MX_AMAX_SKIP_UNLESS_ALL && !numbers) || (r->amax_nan == MX_AMAX_SKIP_UNLESS_ODD && !odd)))
    amax = mx_make(MX_NAN, 0, 0, 0);
  v.amax = amax;
  first = mx_try(r, r, v, in, codes, scale);
  if (r->other) {
    uint8_t others[32], other_scale;
    if (mx_less(mx_try(r, r->other, v, in, others, &other_scale), first)) {
      for (i = 0; i < r->k; i++) codes[i] = others[i];
      *scale = other_scale;
    }
  }
}

/* The bits of a number as float32, rounded to nearest even; NaN is 7fc00000. */
static inline uint32_t mx_bits(mx_real y) {
  uint32_t sign = (uint32_t)y.sign << 31, n;
  int32_t lsb;
  int rest;
  y = mx_as_f32(y);
  if (y.kind == MX_NAN) return 0x7FC00000u;
  if (y.kind == MX_INF) return sign | 0x7F800000u;
  if (!y.sig) return sign;
  lsb = y.exp + 40 < -149 ? -149 : y.exp + 40;
  n = (uint32_t)mx_count(y, lsb, &rest);
  return sign | (n >> 23 ? ((uint32_t)(lsb + 150) << 23 | (n & 0x7FFFFF)) : n);
}

/* The float32 bits of a stored element: one rounding to nearest even; NaN is 7fc00000. */
static inline uint32_t mx_dequantize(const mx_rules *r, uint8_t code, uint8_t scale, uint32_t tensor_scale) {
  mx_env v;
  mx_bind(r, tensor_scale, &v);
  v.q = mx_value(code, r->element), v.sf = mx_value(scale, r->scale);
  return mx_bits(r->dequantize(&v));
}
