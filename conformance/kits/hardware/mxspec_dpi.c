/* The profiles for simulators: DPI-C functions over mxspec_c99.h, with C types alone, so that a Python scoreboard can load them, too.
 *   cc -std=c99 -O2 -shared -fPIC mxspec_dpi.c -o libmxspec.so
 * Vectors are 32-bit words, the first lane in the low bits: x has one word a lane, codes eight bits a lane. Code: Apache-2.0. */
#include "mxspec_c99.h"
#ifdef __cplusplus /* some simulators compile C as C++ */
extern "C" {
#endif

enum { MX_ROUNDINGS = 5, MX_ROWS = (int)(sizeof mx_all / sizeof *mx_all) };
static const char *const mx_rounding_names[MX_ROUNDINGS] = {"", ", ties away from zero", ", ties to zero", ", cut toward zero", ", rounded away from zero"};
/* Which (rule, rounding, subnormal inputs flushed) explain everything that was judged so far. */
static unsigned char mx_excluded[MX_ROWS][MX_ROUNDINGS][2];
static int mx_judged;

/* The number of a profile in a format; -1: there is none. */
int mxspec_find(const char *profile, const char *format, int with_tensor_scale) {
  const mx_rules *r = mx_find(profile, format, with_tensor_scale);
  return r ? (int)(r - mx_all) : -1;
}

static uint8_t mx_answer(const mx_rules *r, const uint32_t *x, uint32_t tensor_scale, uint8_t *codes) {
  uint8_t scale;
  mx_quantize(r, x, tensor_scale, codes, &scale);
  return scale;
}

/* What a profile says: codes, and the scale byte as the result. */
unsigned mxspec_expect(int row, const uint32_t *x, uint32_t tensor_scale, uint32_t *codes) {
  uint8_t own[32];
  int i;
  unsigned scale = mx_answer(&mx_all[row], x, tensor_scale, own);
  for (i = 0; i < mx_all[row].k; i++) codes[i / 4] = (i % 4 ? codes[i / 4] : 0) | (uint32_t)own[i] << 8 * (i % 4);
  return scale;
}

static int mx_differences(const mx_rules *r, const uint32_t *x, uint32_t tensor_scale, const uint32_t *codes, unsigned scale) {
  uint8_t own[32];
  int i, wrong = mx_answer(r, x, tensor_scale, own) != scale;
  for (i = 0; i < r->k; i++) wrong += own[i] != (codes[i / 4] >> 8 * (i % 4) & 255);
  return wrong;
}

static int mx_is_related(const mx_rules *a, const mx_rules *b) {
  return a->element == b->element && a->scale == b->scale && a->k == b->k && a->tensor == b->tensor && !a->error && !a->spills && !a->half_floor;
}

/* Whether a profile describes a library: those have a path in their names. */
static int mx_is_described(const mx_rules *r) {
  const char *at = r->profile;
  while (*at && *at != '/') at++;
  return *at == '/';
}

/* How many lanes differ from a profile, and one if the scale does; what would explain the block is kept for mxspec_name(). */
int mxspec_judge(int row, const uint32_t *x, uint32_t tensor_scale, const uint32_t *codes, unsigned scale) {
  int i, rounding, flush;
  mx_judged++;
  for (i = 0; i < MX_ROWS; i++)
    for (rounding = 0; rounding < MX_ROUNDINGS && mx_is_related(&mx_all[i], &mx_all[row]); rounding++)
      for (flush = 0; flush < 2; flush++) {
        mx_rules r = mx_all[i];
        if (mx_excluded[i][rounding][flush]) continue;
        r.round_codes[0] = r.round_codes[1] = rounding;
        r.flush |= flush;
        mx_excluded[i][rounding][flush] = mx_differences(&r, x, tensor_scale, codes, scale) != 0;
      }
  return mx_differences(&mx_all[row], x, tensor_scale, codes, scale);
}

/* The rule, and the mistake in it, that explains all blocks judged since the last mxspec_reset(). */
const char *mxspec_name(int row) {
  static char text[160];
  int i, at, order, pass, rounding, flush;
  size_t n = 0;
  const char *part;
  for (order = 0; order < 20 * (MX_ROWS + 1); order++) { /* the profile asked for, normative ones, libraries' ones; nothing flushed first */
    pass = order / (5 * (MX_ROWS + 1)), at = order % (5 * (MX_ROWS + 1)), i = at / 5 ? at / 5 - 1 : row, rounding = at % 5, flush = pass / 2;
    if (!mx_judged || !mx_is_related(&mx_all[i], &mx_all[row]) || mx_excluded[i][rounding][flush]) continue;
    if (i != row && mx_is_described(&mx_all[i]) != pass % 2) continue;
    for (part = mx_all[i].profile; *part && n < 100; part++) text[n++] = *part;
    for (part = mx_rounding_names[rounding]; *part; part++) text[n++] = *part;
    for (part = flush ? ", subnormals flushed" : ""; *part; part++) text[n++] = *part;
    text[n] = 0;
    return text;
  }
  return mx_judged ? "no rule" : "nothing judged";
}

void mxspec_reset(void) {
  int i, rounding, flush;
  for (i = 0; i < MX_ROWS; i++)
    for (rounding = 0; rounding < MX_ROUNDINGS; rounding++)
      for (flush = 0; flush < 2; flush++) mx_excluded[i][rounding][flush] = 0;
  mx_judged = 0;
}

static mx_real mx_scaled_lane(const mx_rules *r, uint32_t bits, uint8_t scale, uint32_t tensor_scale) {
  mx_env v;
  mx_bind(r, tensor_scale, &v);
  v.sf = mx_value(scale, r->scale), v.x = mx_f32(bits);
  return r->scaled(&v);
}

/* How a scaled number lies between two codes: 0 on one, 1 below the middle, 2 on it, 3 above. */
static int mx_rest(const mx_rules *r, mx_real scaled) {
  int64_t base;
  int rest;
  (void)mx_count(scaled, mx_step_of(scaled, r->element, &base), &rest);
  return rest;
}

/* Which topics of the golden vectors a block is about: a bit each, in the order of exact, tie-even, below-tie, above-tie, overflow, subnormal, zero-sign, zero-block, nan, inf, scale-boundary, scale-clamp. */
uint32_t mxspec_topics(int row, const uint32_t *x, uint32_t tensor_scale) {
  const mx_rules *r = &mx_all[row];
  uint8_t codes[32], scale = mx_answer(r, x, tensor_scale, codes);
  uint32_t seen = 0, top = 0, moved[32];
  int i, at = 0, numbers = 1;
  mx_real largest = mx_value(r->element->top, r->element);
  for (i = 0; i < r->k; i++) {
    uint32_t magnitude = x[i] & 0x7FFFFFFF;
    if (magnitude > 0x7F800000) seen |= 1u << 8, numbers = 0;
    if (magnitude == 0x7F800000) seen |= 1u << 9, numbers = 0;
    if (magnitude > top) top = magnitude, at = i;
    moved[i] = x[i];
  }
  if (!numbers) return seen;
  if (!top) seen |= 1u << 7;
  if (top && (scale == r->low || scale == r->high)) seen |= 1u << 11;
  moved[at] = x[at] + 1;
  if (top < 0x7F7FFFFF && mx_answer(r, moved, tensor_scale, codes) != scale) seen |= 1u << 10;
  moved[at] = x[at] - 1;
  if (top && mx_answer(r, moved, tensor_scale, codes) != scale) seen |= 1u << 10;
  (void)mx_answer(r, x, tensor_scale, codes);
  for (i = 0; i < r->k; i++) {
    mx_real scaled = mx_scaled_lane(r, x[i], scale, tensor_scale);
    int rest = mx_rest(r, scaled), low = codes[i] & ((1 << (r->element->e + r->element->m)) - 1);
    if (scaled.kind != MX_FINITE) continue;
    if (!(x[i] & 0x7FFFFFFF)) { if (x[i]) seen |= 1u << 6; continue; }
    if (mx_compare_magnitudes(scaled, largest) > 0) { seen |= 1u << 4; continue; }
    if (r->element->e && low && low < 1 << r->element->m) seen |= 1u << 5;
    if (rest == 0) seen |= 1u << 0;
    if (rest == 2) seen |= 1u << 1;
    if (rest == 1 && mx_rest(r, mx_scaled_lane(r, x[i] + 1, scale, tensor_scale)) == 2) seen |= 1u << 2;
    if (rest == 3 && mx_rest(r, mx_scaled_lane(r, x[i] - 1, scale, tensor_scale)) == 2) seen |= 1u << 3;
  }
  return seen;
}
#ifdef __cplusplus
}
#endif
