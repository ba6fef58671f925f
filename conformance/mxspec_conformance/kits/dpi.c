/* The profiles for simulators: DPI-C functions over mxspec_c99.h and mxspec_dot.h, with C types alone, so that a Python scoreboard can load them, too.
 *   cc -std=c99 -O2 -shared -fPIC mxspec_dpi.c -o libmxspec.so
 * Vectors are 32-bit words, the first lane in the low bits: x has one word a lane, codes eight bits a lane. Code: Apache-2.0. */
#include <stdio.h>
#include "mxspec_dot.h"
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

static int mx_is_related(const mx_rules *a, const mx_rules *b) {
  return a->element == b->element && a->scale == b->scale && a->k == b->k && a->tensor == b->tensor && !a->error && !a->spills && !a->half_floor;
}

/* Whether a profile describes a library: those have a path in their names. */
static int mx_is_described(const mx_rules *r) {
  const char *at = r->profile;
  while (*at && *at != '/') at++;
  return *at == '/';
}

enum { MX_RIGHT, MX_OPEN, MX_WRONG };

/* A code with negative zero made positive. */
static int mx_fold(const mx_rules *r, int code) { return r->element->e && code == 1 << (r->element->e + r->element->m) ? 0 : code; }

static int mx_is_nan_code(const mx_scalar *f, int code) { return mx_value(code, f).kind == MX_NAN; }

/* Whether codes are those of the profile under a scale, the sign of zero left out. */
static int mx_fits(const mx_rules *r, const uint32_t *x, unsigned scale, const uint8_t *codes) {
  mx_env v;
  int i;
  mx_bind(r, 0, &v), v.sf = mx_value((int)scale, r->scale);
  for (i = 0; i < r->k; i++) {
    mx_real given = mx_f32(x[i]);
    v.x = r->flush ? mx_flush(given) : given;
    if (mx_fold(r, mx_element(r, r->scaled(&v), v.x, 0)) != mx_fold(r, codes[i])) return 0;
  }
  return 1;
}

/* Whether int8 may be -128 where the profile gives -127: from -127.5 / 64 down. */
static int mx_may_be_lowest(const mx_rules *r, uint32_t x, unsigned scale) {
  mx_env v;
  mx_bind(r, 0, &v), v.sf = mx_value((int)scale, r->scale), v.x = mx_f32(x);
  return mx_compare_magnitudes(r->scaled(&v), mx_make(MX_FINITE, 0, 255, -7)) >= 0;
}

/* What is to be said of a block by a profile: OCP leaves a choice for NaN, infinities, zeros, the sign of zero and the lowest scale, and lets int8 keep -128.
 * A profile of a library leaves none. */
static int mx_verdict(const mx_rules *r, const uint32_t *x, uint32_t tensor_scale, const uint8_t *codes, unsigned scale) {
  uint8_t own[32], rest_codes[32];
  uint32_t rest[32], magnitude, any = 0;
  unsigned byte = mx_answer(r, x, tensor_scale, own);
  int i, lost = mx_value((int)scale, r->scale).kind == MX_NAN, nan = 0, inf = 0, kept = 1, zeros = 1, exact = scale == byte, equal = exact, lowest = exact, mx = r->scale->m == 0;
  for (i = 0; i < r->k; i++) {
    magnitude = x[i] & 0x7FFFFFFF, any |= magnitude, nan |= magnitude > 0x7F800000, inf |= magnitude == 0x7F800000;
    rest[i] = magnitude > 0x7F800000 ? 0 : x[i], rest_codes[i] = magnitude > 0x7F800000 ? 0 : codes[i];
    kept &= magnitude <= 0x7F800000 || mx_is_nan_code(r->element, codes[i]);
    exact &= codes[i] == own[i], equal &= mx_fold(r, codes[i]) == mx_fold(r, own[i]), zeros &= !mx_fold(r, codes[i]);
    lowest &= codes[i] == own[i] || (!r->element->e && codes[i] == 0x80 && own[i] == 0x81 && mx_may_be_lowest(r, x[i], byte));
  }
  if (exact) return MX_RIGHT;
  if (mx_is_described(r)) return MX_WRONG;
  if (r->tensor && (tensor_scale & 0x7FFFFFFF) >= 0x7F800000) return MX_OPEN;
  if (nan || inf) {
    if (mx && lost) return MX_RIGHT;
    if (!nan || !mx || !r->element->nan) return MX_OPEN;
    return kept ? mx_verdict(r, rest, tensor_scale, rest_codes, scale) : MX_WRONG;
  }
  if (!any) return !zeros || lost || (!mx && scale > 0x7E) ? MX_WRONG : mx ? MX_RIGHT : MX_OPEN;
  if (lowest) return MX_RIGHT;
  if (equal || (mx && byte == 0 && ((zeros && scale <= 0x7F) || (scale == 1 && mx_fits(r, x, 1, codes))))) return MX_OPEN;
  return MX_WRONG;
}

/* 0: a block is right; 1: it differs where OCP leaves the answer open; 2: it is wrong. What would explain the block is kept for mxspec_name(): only
 * a wrong one excludes a rule. */
int mxspec_judge(int row, const uint32_t *x, uint32_t tensor_scale, const uint32_t *codes, unsigned scale) {
  uint8_t given[32];
  int i, rounding, flush;
  for (i = 0; i < mx_all[row].k; i++) given[i] = (uint8_t)(codes[i / 4] >> 8 * (i % 4));
  mx_judged++;
  for (i = 0; i < MX_ROWS; i++)
    for (rounding = 0; rounding < MX_ROUNDINGS && mx_is_related(&mx_all[i], &mx_all[row]); rounding++)
      for (flush = 0; flush < 2; flush++) {
        mx_rules r = mx_all[i];
        if (mx_excluded[i][rounding][flush]) continue;
        r.round_codes[0] = r.round_codes[1] = rounding;
        r.flush |= flush;
        mx_excluded[i][rounding][flush] = mx_verdict(&r, x, tensor_scale, given, scale) == MX_WRONG;
      }
  return mx_verdict(&mx_all[row], x, tensor_scale, given, scale);
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

/* Coverage: the bins of a profile have numbers from 0 on, one point after the other. */
enum { MX_TOPIC, MX_EDGE, MX_BINADE, MX_LARGEST_LANE, MX_INPUT, MX_THRESHOLD, MX_POINTS };
static const char *const mx_points[MX_POINTS] = {@POINTS@};
static unsigned mx_hits[2048]; /* no format has as many */

static int mx_bins(const mx_rules *r, int point) {
  const int sizes[MX_POINTS] = {@TOPIC_COUNT@, 4, 256, r->k, 12, 6 * r->element->top};
  return sizes[point];
}

static void mx_hit(const mx_rules *r, int point, int bin) {
  while (point--) bin += mx_bins(r, point);
  mx_hits[bin]++;
}

/* The name of a bin, its point first; empty beyond the last one. */
const char *mxspec_bin(int row, int bin) {
  static const char *const topics[] = {@TOPIC_NAMES@}, *const edges[] = {"lowest", "highest", "differs below", "differs above"};
  static const char *const inputs[] = {"zero", "subnormal", "normal", "infinity", "quiet NaN", "signaling NaN"}, *const places[] = {"below", "on", "above"};
  static char text[64];
  int point = 0, size;
  for (; point < MX_POINTS && bin >= (size = mx_bins(&mx_all[row], point)); point++) bin -= size;
  text[0] = 0;
  if (point == MX_TOPIC) (void)snprintf(text, sizeof text, "topic %s", topics[bin]);
  if (point == MX_EDGE) (void)snprintf(text, sizeof text, "scale %s", edges[bin]);
  if (point == MX_BINADE) (void)snprintf(text, sizeof text, "binade %02x", (unsigned)bin);
  if (point == MX_LARGEST_LANE) (void)snprintf(text, sizeof text, "largest in lane %d", bin);
  if (point == MX_INPUT) (void)snprintf(text, sizeof text, "input %c%s", "+-"[bin & 1], inputs[bin / 2]);
  if (point == MX_THRESHOLD) (void)snprintf(text, sizeof text, "threshold %c%02x|%02x %s", "+-"[bin & 1], (unsigned)bin / 6, (unsigned)bin / 6 + 1, places[bin / 2 % 3]);
  return text;
}

/* How often a bin was met since the last mxspec_reset(). */
unsigned mxspec_hits(int bin) { return mx_hits[bin & 2047]; }

/* For each point the bins that were met, of all. */
const char *mxspec_covered(int row) {
  static char text[200];
  int point, i, met, n = 0, bin = 0;
  for (point = 0; point < MX_POINTS; point++) {
    for (i = met = 0; i < mx_bins(&mx_all[row], point); i++) met += mx_hits[bin++] != 0;
    n += snprintf(text + n, sizeof text - (size_t)n, "%s%s %d/%d", n ? ", " : "", mx_points[point], met, i);
  }
  return text;
}

void mxspec_reset(void) {
  int i, rounding, flush;
  for (i = 0; i < 2048; i++) mx_hits[i] = 0;
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

/* The scale byte of a block whose other numbers are zero. */
static unsigned mx_scale_of(const mx_rules *r, uint32_t number, uint32_t tensor_scale) {
  uint8_t codes[32];
  uint32_t x[32] = {0};
  x[0] = number;
  return mx_answer(r, x, tensor_scale, codes);
}

static uint32_t mx_seen(const mx_rules *r, const uint32_t *x, uint32_t tensor_scale, uint32_t *lanes) {
  uint8_t codes[32], scale = mx_answer(r, x, tensor_scale, codes);
  uint32_t seen = 0, top = 0, moved[32];
  int i, at = 0, numbers = 1;
  mx_real largest = mx_value(r->element->top, r->element);
  for (i = 0; i < r->k; i++) {
    uint32_t magnitude = x[i] & 0x7FFFFFFF, kind;
    kind = magnitude >= 0x7FC00000 ? 4 : magnitude > 0x7F800000 ? 5 : magnitude == 0x7F800000 ? 3 : magnitude > 0x7FFFFF ? 2 : magnitude != 0;
    if (magnitude > 0x7F800000) seen |= @NAN@, numbers = 0;
    if (magnitude == 0x7F800000) seen |= @INF@, numbers = 0;
    if (magnitude > top) top = magnitude, at = i;
    moved[i] = x[i], lanes[i] = (2 * kind + (x[i] >> 31)) << 12;
  }
  seen |= (top >> 23) << 16 | (uint32_t)at << 24;
  if (!numbers) return seen;
  if (!top) seen |= @ZERO_BLOCK@;
  if (top && (scale == r->low || scale == r->high)) seen |= @SCALE_CLAMP@;
  if (top && scale == mx_scale_of(r, 1, tensor_scale)) seen |= 1u << 12;
  if (top && scale == mx_scale_of(r, 0x7F7FFFFF, tensor_scale)) seen |= 1u << 13;
  moved[at] = x[at] + 1;
  if (top < 0x7F7FFFFF && mx_answer(r, moved, tensor_scale, codes) != scale) seen |= @SCALE_BOUNDARY@ | 1u << 15;
  moved[at] = x[at] - 1;
  if (top && mx_answer(r, moved, tensor_scale, codes) != scale) seen |= @SCALE_BOUNDARY@ | 1u << 14;
  (void)mx_answer(r, x, tensor_scale, codes);
  for (i = 0; i < r->k; i++) {
    mx_real scaled = mx_scaled_lane(r, x[i], scale, tensor_scale);
    int place, rest = mx_rest(r, scaled), low = codes[i] & ((1 << (r->element->e + r->element->m)) - 1);
    if (scaled.kind != MX_FINITE) continue;
    if (!(x[i] & 0x7FFFFFFF)) { if (x[i]) seen |= @ZERO_SIGN@; continue; }
    if (mx_compare_magnitudes(scaled, largest) > 0) { seen |= @OVERFLOW@; continue; }
    if (r->element->e && low && low < 1 << r->element->m) seen |= @SUBNORMAL@;
    if (rest == 0) seen |= @EXACT@;
    place = rest == 2 ? 1 : -1;
    if (rest == 1 && mx_rest(r, mx_scaled_lane(r, x[i] + 1, scale, tensor_scale)) == 2) place = 0;
    if (rest == 3 && mx_rest(r, mx_scaled_lane(r, x[i] - 1, scale, tensor_scale)) == 2) place = 2;
    if (place >= 0) seen |= place == 1 ? @TIE_EVEN@ : place ? @ABOVE_TIE@ : @BELOW_TIE@;
    if (place >= 0) lanes[i] |= (uint32_t)(6 * mx_code(scaled, r->element, MX_DOWN) + 2 * place + (x[i] >> 31) + 1);
  }
  return seen;
}

/* What a block is about, which is counted as well: topics of the golden vectors, a bit each, in the order of @TOPICS@;
 * bit 12 and 13: its scale is that of the smallest number, of the largest one; 14 and 15: an amax one step smaller, larger has another scale;
 * [23:16] the exponent field of amax, [28:24] its lane. For each lane, [15:12] what x is, [9:0] one more than the number of the threshold that it
 * is on or next to, of those of mxspec_bin(); 0: of none. */
uint32_t mxspec_cover(int row, const uint32_t *x, uint32_t tensor_scale, uint32_t *lanes) {
  const mx_rules *r = &mx_all[row];
  uint32_t seen = mx_seen(r, x, tensor_scale, lanes);
  int i;
  for (i = 0; i < @TOPIC_COUNT@; i++)
    if (seen >> i & 1) mx_hit(r, MX_TOPIC, i);
  for (i = 0; i < 4; i++)
    if (seen >> (12 + i) & 1) mx_hit(r, MX_EDGE, i);
  mx_hit(r, MX_BINADE, (int)(seen >> 16 & 255));
  mx_hit(r, MX_LARGEST_LANE, (int)(seen >> 24));
  for (i = 0; i < r->k; i++) {
    mx_hit(r, MX_INPUT, (int)(lanes[i] >> 12));
    if (lanes[i] & 1023) mx_hit(r, MX_THRESHOLD, (int)(lanes[i] & 1023) - 1);
  }
  return seen;
}

/* Units that add products: those of mxspec_dot.h, and one more with parameters of yours. */
enum { MX_UNITS = (int)(sizeof mx_units / sizeof *mx_units) };
static mx_unit mx_own_unit;

/* The number of a unit; -1: there is none. */
int mxspec_unit(const char *name) {
  int i = MX_UNITS;
  size_t n;
  while (i--) {
    for (n = 0; mx_units[i].name[n] && mx_units[i].name[n] == name[n]; n++) continue;
    if (mx_units[i].name[n] == name[n]) return i;
  }
  return -1;
}

/* The number of a unit with these parameters, until others are given; -1: 63 bits do not hold its sums. */
int mxspec_define_unit(int group, int fraction, int aligned, int output, int normalised, int least, int most, int promoted) {
  mx_unit u = {"own", group, fraction, aligned, output, normalised, least, most, promoted};
  if (group < 1 || group > 64 || fraction < 0 || fraction > 58 || group >= 1 << (59 - fraction > 20 ? 20 : 59 - fraction)) return -1;
  if (output < 0 || output > 55 || promoted < 0 || aligned < 0 || aligned > MX_STICKY || normalised < 0 || normalised > MX_STICKY) return -1;
  mx_own_unit = u;
  return MX_UNITS;
}

/* The sum of up to 256 products by a unit, as float32 bits, without tensor scales. a, b: any profile of the operands' formats. */
unsigned mxspec_dot(int unit, int a, int b, int k, const uint32_t *a_codes, const uint32_t *a_scales, const uint32_t *b_codes, const uint32_t *b_scales) {
  const uint32_t *from[4];
  uint8_t bytes[4][256];
  int i, n;
  from[0] = a_codes, from[1] = a_scales, from[2] = b_codes, from[3] = b_scales;
  for (n = 0; n < 4; n++)
    for (i = 0; i < (n == 1 ? (k - 1) / mx_all[a].k + 1 : n == 3 ? (k - 1) / mx_all[b].k + 1 : k); i++) bytes[n][i] = (uint8_t)(from[n][i / 4] >> 8 * (i % 4));
  return mx_dot(unit == MX_UNITS ? &mx_own_unit : &mx_units[unit], &mx_all[a], bytes[0], bytes[1], &mx_all[b], bytes[2], bytes[3], k);
}
#ifdef __cplusplus
}
#endif
