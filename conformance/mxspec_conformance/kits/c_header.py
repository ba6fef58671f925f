"""A kit as one C99 header with its data, and a driver of forty lines."""

from __future__ import annotations

import base64
import textwrap
from collections.abc import Mapping, Sequence

import numpy as np

import mxspec
from mxspec_conformance.kits.choosing import say_limits
from mxspec_conformance.kits.golden import Block, rules_of
from mxspec_conformance.kits.runtime import FORMATS

_HEAD = """/* MX and NVFP4 golden blocks for C and C++: {formats}.
 *
 * Written by mxspec {version}. SPDX-License-Identifier: CC0-1.0. C99, no library but the standard one; data is in bits, so that the flags by
 * which a kernel is compiled change nothing here. mxk_check() asks a quantizer about all blocks of a format and says which rule is nearest.
 * The data is packed (mxk_unpack); `mxspec kit json` writes the same blocks to be read.
 * {limits}
 */
#ifndef MXSPEC_KIT_H
#define MXSPEC_KIT_H
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* x: rows * k floats; codes: one to a byte, rows * k; scales: one to a row. tensor_scale: float bits, {kind}; 0 where there is none. */
typedef void (*mxk_quantize)(const float *x, int rows, uint32_t tensor_scale, uint8_t *codes, uint8_t *scales);

/* One legal answer to a block by some rules. Lanes whose bit is set in `nan` may hold any NaN code. */
typedef struct {{ uint16_t block, rules; uint8_t scale, scale_max; uint32_t nan; uint16_t codes, mask; }} mxk_answer;
/* open: 1: OCP leaves the answer open; 2: between the two lowest scales and zeros, under a scale of at most 7F. */
typedef struct {{ const char *id, *topic; uint32_t tensor_scale; uint8_t signs, open; }} mxk_block;
typedef struct {{
  const char *name; int k, blocks, answers, row_count, sign, first_nan, rule_count; const char *const *rules;
  uint32_t *x; mxk_block *block; mxk_answer *answer; uint8_t *rows, *end; /* codes and masks, k to a row; then what was unpacked to the others */
  const char *const *packed;
}} mxk_format;
"""

_CODE = """
typedef struct { const char *const *line; const char *at; uint32_t bits; int held; } mxk_reader;

/* The next byte: a character has six bits. */
static uint8_t mxk_next(mxk_reader *r) {
  static const char six[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  while (r->held < 8) {
    if (!*r->at) r->at = *++r->line;
    r->bits = r->bits << 6 | (uint32_t)(strchr(six, *r->at++) - six);
    r->held += 6;
  }
  r->held -= 8;
  return (uint8_t)(r->bits >> r->held);
}

/* Number i of n that lie in planes of bytes, the highest first. */
static uint32_t mxk_number(const uint8_t *plane, int bytes, int n, int i) {
  uint32_t value = 0;
  for (; bytes; bytes--, plane += n) value = value << 8 | plane[i];
  return value;
}

/* A byte below 128 is followed by one byte more than it says; n above copies n - 125 bytes from as far back as two bytes say. */
static void mxk_unpack(const mxk_format *f) {
  mxk_reader r;
  uint8_t *to = f->rows;
  const uint8_t *p;
  int i, n;
  if (f->block[0].id) return;
  r.line = f->packed, r.at = *r.line, r.bits = 0, r.held = 0;
  while (to < f->end) {
    n = mxk_next(&r);
    if (n < 128) for (i = 0; i <= n; i++) *to++ = mxk_next(&r);
    else {
      int back = mxk_next(&r) << 8;
      back |= mxk_next(&r);
      for (i = 0; i < n - 125; i++, to++) *to = to[-back];
    }
  }
  p = f->rows + f->row_count * f->k, n = f->blocks * f->k;
  for (i = 0; i < n; i++) f->x[i] = mxk_number(p, 4, n, i);
  p += 4 * n, n = f->answers;
  for (i = 0; i < n; i++) {
    mxk_answer *a = f->answer + i;
    a->block = p[i], a->rules = p[n + i], a->scale = p[2 * n + i], a->scale_max = p[3 * n + i], a->nan = mxk_number(p + 4 * n, 4, n, i);
    a->codes = (uint16_t)mxk_number(p + 8 * n, 2, n, i), a->mask = (uint16_t)mxk_number(p + 10 * n, 2, n, i);
  }
  p += 12 * n, n = f->blocks, to = f->rows + (p - f->rows) + 6 * n;
  for (i = 0; i < n; i++) {
    mxk_block *b = f->block + i;
    b->tensor_scale = mxk_number(p, 4, n, i), b->signs = p[4 * n + i], b->open = p[5 * n + i];
    b->id = (const char *)to, to += strlen(b->id) + 1, b->topic = (const char *)to, to += strlen(b->topic) + 1;
  }
}

/* Whether an answer is what was returned; -0 counts as 0 unless the block is about signs. */
static int mxk_matches(const mxk_format *f, const mxk_answer *a, const mxk_block *b, const uint8_t *codes, uint8_t scale) {
  const uint8_t *want = f->rows + (size_t)a->codes * (size_t)f->k, *mask = f->rows + (size_t)a->mask * (size_t)f->k;
  int i;
  if (scale < a->scale || scale > a->scale_max) return 0;
  for (i = 0; i < f->k; i++) {
    uint8_t got = codes[i], w = want[i];
    if (a->nan >> i & 1u) {
      if ((got & (f->sign - 1)) < f->first_nan) return 0;
      continue;
    }
    if (!b->signs && f->sign) {
      if (got == f->sign) got = 0;
      if (w == f->sign) w = 0;
    }
    if ((got ^ w) & mask[i]) return 0;
  }
  return 1;
}

/* 1: right, 0: wrong, -1: the rule says nothing of the block. */
static int mxk_is_right(const mxk_format *f, int block, int rule, const uint8_t *codes, uint8_t scale) {
  int i, known = -1;
  for (i = 0; i < f->answers; i++)
    if (f->answer[i].block == block && f->answer[i].rules >> rule & 1) {
      if (mxk_matches(f, &f->answer[i], &f->block[block], codes, scale)) return 1;
      known = 0;
    }
  return known;
}

/* Whether no rule has to give the answer, as OCP leaves it open. */
static int mxk_is_open(const mxk_format *f, int block, const uint8_t *codes, uint8_t scale) {
  int i, zeros = scale < 128;
  for (i = 0; i < f->k; i++) zeros = zeros && (!codes[i] || (f->sign && codes[i] == f->sign));
  return f->block[block].open == 1 || (f->block[block].open == 2 && (scale < 2 || zeros));
}

static void mxk_print(const mxk_format *f, int block, int rule, const uint8_t *codes, uint8_t scale, FILE *out) {
  const mxk_answer *a = f->answer;
  int i;
  while (a->block != block || !(a->rules >> rule & 1)) a++;
  fprintf(out, "  %s (%s): scale expected %02x, returned %02x\\n", f->block[block].id, f->block[block].topic, a->scale, scale);
  for (i = 0; i < f->k; i++) {
    uint32_t x = f->x[block * f->k + i];
    uint8_t want = f->rows[(size_t)a->codes * (size_t)f->k + (size_t)i];
    if (x || codes[i] != want)
      fprintf(out, "    lane %2d: x 0x%08lx  expected %02x, returned %02x%s\\n", i, (unsigned long)x, want, codes[i], codes[i] == want ? "" : "  <--");
  }
}

/* Asks about every block, one a call and all in one call. rule: a name, or NULL for the nearest. strict: also fail where OCP leaves the answer
 * open. Returns the number of failing blocks; prints the simplest one. */
static int mxk_check(const mxk_format *f, mxk_quantize quantize, const char *rule, int strict, FILE *out) {
  static uint8_t codes[MXK_MOST_CODES], again[MXK_MOST_CODES], scales[MXK_MOST_BLOCKS], again_scales[MXK_MOST_BLOCKS];
  static float x[MXK_MOST_CODES];
  int b, r, best = -1, best_wrong = 0, open = 0, simplest = -1, fewest = 99;
  mxk_unpack(f);
  memcpy(x, f->x, (size_t)(f->blocks * f->k) * sizeof *x);
  for (b = 0; b < f->blocks;) { /* neighbours with one tensor scale are one call */
    int end = b + 1;
    while (end < f->blocks && f->block[end].tensor_scale == f->block[b].tensor_scale) end++;
    quantize(x + b * f->k, end - b, f->block[b].tensor_scale, codes + b * f->k, scales + b);
    b = end;
  }
  for (b = 0; b < f->blocks; b++) quantize(x + b * f->k, 1, f->block[b].tensor_scale, again + b * f->k, again_scales + b);
  if (memcmp(x, f->x, (size_t)(f->blocks * f->k) * sizeof *x)) return fprintf(out, "%s: the input was written to\\n", f->name), 1;
  if (memcmp(codes, again, (size_t)(f->blocks * f->k)) || memcmp(scales, again_scales, (size_t)f->blocks))
    return fprintf(out, "%s: a block alone gets another answer than among others\\n", f->name), 1;
  for (r = 0; r < f->rule_count; r++) {
    int wrong = 0;
    if (rule && strcmp(rule, f->rules[r])) continue;
    for (b = 0; b < f->blocks; b++)
      wrong += (strict || !mxk_is_open(f, b, codes + b * f->k, scales[b])) && mxk_is_right(f, b, r, codes + b * f->k, scales[b]) == 0;
    if (best < 0 || wrong < best_wrong) best = r, best_wrong = wrong;
  }
  if (best < 0) return fprintf(out, "%s: no rule is named %s\\n", f->name, rule), 1;
  for (b = 0; b < f->blocks; b++) {
    int i, lanes = 0;
    if (mxk_is_right(f, b, best, codes + b * f->k, scales[b]) != 0) continue;
    if (!strict && mxk_is_open(f, b, codes + b * f->k, scales[b])) { open++; continue; }
    for (i = 0; i < f->k; i++) lanes += f->x[b * f->k + i] != 0;
    if (lanes < fewest) fewest = lanes, simplest = b;
  }
  fprintf(out, "%s: nearest rule %s, %d of %d blocks differ, %d more where OCP leaves it open\\n", f->name, f->rules[best], best_wrong, f->blocks, open);
  if (simplest >= 0) mxk_print(f, simplest, best, codes + simplest * f->k, scales[simplest], out);
  return best_wrong;
}
#endif
"""

_DRIVER = """/* Puts a quantizer to the test: write the function, compile, run. It exits with 0 if every block is right. SPDX-License-Identifier: CC0-1.0
 *
 *   cc -std=c99 -pedantic -Wall driver.c -o driver && ./driver
 */
#include "{header}"

#ifdef KERNEL /* cc -DKERNEL=my_kernel driver.c my_kernel.o */
void KERNEL(const float *x, int rows, uint32_t tensor_scale, uint8_t *codes, uint8_t *scales);
#else
#define KERNEL example
/* An example to replace: MXFP4 by mx-floor. It finds ties by comparison, and the scale from the exponent field. */
static void example(const float *x, int rows, uint32_t tensor_scale, uint8_t *codes, uint8_t *scales) {{
  static const double ties[7] = {{0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0}}; /* between code i and i + 1; a tie goes to the even one */
  int r, i, c;
  (void)tensor_scale;
  for (r = 0; r < rows; r++) {{
    uint32_t bits[32], top = 0;
    double unit = 1;
    int e;
    memcpy(bits, x + 32 * r, sizeof bits);
    for (i = 0; i < 32; i++) if ((bits[i] & 0x7FFFFFFFu) > top) top = bits[i] & 0x7FFFFFFFu;
    e = top > 0x7F800000u ? 255 : top == 0x7F800000u ? 254 : (int)(top >> 23) < 2 ? 0 : (int)(top >> 23) - 2;
    scales[r] = (uint8_t)e;
    for (c = 127; c < e; c++) unit *= 2;
    for (c = e; c < 127; c++) unit /= 2;
    for (i = 0; i < 32; i++) {{
      double q = (x[32 * r + i] < 0 ? -(double)x[32 * r + i] : (double)x[32 * r + i]) / unit;
      for (c = 0; c < 7 && (q > ties[c] || (q == ties[c] && c % 2)); c++) continue;
      codes[32 * r + i] = (uint8_t)(e == 255 ? 0 : c | (int)(bits[i] >> 31 << 3));
    }}
  }}
}}
#endif

int main(int argc, char **argv) {{ /* driver [FORMAT [RULE]] */
  int i, wrong = 0;
  const char *format = argc > 1 ? argv[1] : "mxfp4", *rule = argc > 2 ? argv[2] : NULL;
  for (i = 0; i < (int)(sizeof mxk_formats / sizeof *mxk_formats); i++)
    if (!strcmp(format, mxk_formats[i]->name)) wrong += mxk_check(mxk_formats[i], KERNEL, rule, 0, stdout);
  return wrong != 0;
}}
"""


def write_c_header(blocks: Mapping[str, Sequence[Block]], kind: str = "amax") -> str:
    """The header's text. kind: of the tensor scale: amax, encode or decode."""
    words = {"amax": "the tensor's largest magnitude", "encode": "S", "decode": "1 / S"}[kind]
    most = max(len(listed) for listed in blocks.values())
    limits = "\n * ".join(textwrap.wrap(say_limits(blocks, most, calls=False), 140))
    parts = [_HEAD.format(formats=", ".join(blocks), version=mxspec.__version__, kind=words, limits=limits)]
    codes = max(len(listed) * FORMATS[fmt].k for fmt, listed in blocks.items())
    parts.append(f"#define MXK_MOST_BLOCKS {most}\n#define MXK_MOST_CODES {codes}\n")
    for fmt, listed in blocks.items():
        parts.append(_data_of(fmt, sorted(listed, key=lambda b: str(b.get("g", {}).get(kind, ""))), kind))
    names = ", ".join(f"&mxk_{fmt}" for fmt in blocks)
    parts.append(f"static const mxk_format *const mxk_formats[] = {{{names}}};\n")
    return "\n".join(parts) + _CODE


def write_driver(header: str) -> str:
    """The driver's text."""
    return _DRIVER.format(header=header)


def _data_of(fmt: str, listed: Sequence[Block], kind: str) -> str:
    f = FORMATS[fmt]
    rules = [r for r in rules_of(fmt) if any(r in named for b in listed for named, _ in b["a"])]
    rows: dict[bytes, int] = {b"\xff" * f.k: 0}
    answers: list[tuple[int, ...]] = []
    for number, block in enumerate(listed):
        for named, legal in block["a"]:
            bits = sum(1 << rules.index(r) for r in named)
            for a in legal:
                codes = rows.setdefault(bytes.fromhex(a["c"]), len(rows))
                mask = rows.setdefault(bytes.fromhex(a["m"]), len(rows)) if "m" in a else 0
                answers.append((number, bits, a["s"], a.get("t", a["s"]), sum(1 << n for n in a.get("n", ())), codes, mask))
    about = [(int(b["g"][kind], 16) if "g" in b else 0, b.get("z", 0), b.get("o", 0)) for b in listed]
    names = "".join(f"{b['i']}\0{b['p']}\0" for b in listed).encode("ascii")
    words = _planes([(int(w),) for b in listed for w in b["x"]], (4,))
    raw = b"".join(rows) + words + _planes(answers, (1, 1, 1, 1, 4, 2, 2)) + _planes(about, (4, 1, 1)) + names
    nan = f.nan or f.sign
    lines = textwrap.wrap(base64.b64encode(pack_bytes(raw)).decode("ascii").rstrip("="), 136)
    return "\n".join(
        [
            f"static uint32_t mxk_{fmt}_x[{len(listed) * f.k}];",
            f"static mxk_block mxk_{fmt}_block[{len(listed)}];",
            f"static mxk_answer mxk_{fmt}_answer[{len(answers)}];",
            f"static uint8_t mxk_{fmt}_rows[{len(raw)}];",
            f"static const char *const mxk_{fmt}_rules[] = {{{', '.join(map(_quote, rules))}}};",
            f"static const char *const mxk_{fmt}_packed[] = {{", *(f"{_quote(line)}," for line in lines), "};",
            f"static const mxk_format mxk_{fmt} = {{",
            f"  {_quote(fmt)}, {f.k}, {len(listed)}, {len(answers)}, {len(rows)}, {f.sign if f.e else 0}, {nan}, {len(rules)}, mxk_{fmt}_rules, mxk_{fmt}_x,",
            f"  mxk_{fmt}_block, mxk_{fmt}_answer, mxk_{fmt}_rows, mxk_{fmt}_rows + {len(raw)}, mxk_{fmt}_packed}};",
            "",
        ]
    )  # fmt: skip


def _planes(rows: Sequence[Sequence[int]], widths: Sequence[int]) -> bytes:
    """Columns of numbers, each as planes of bytes, the highest first: what is alike comes together."""
    return b"".join(
        np.array(column, f">u{width}").view(np.uint8).reshape(-1, width).T.tobytes()
        for column, width in zip(zip(*rows, strict=True), widths, strict=True)
    )


def pack_bytes(raw: bytes) -> bytes:
    """What `mxk_unpack` reads: runs of bytes, and copies of 3 to 130 bytes that came before."""
    packed, run = bytearray(), bytearray()
    places: dict[bytes, list[int]] = {}

    def close() -> None:
        for start in range(0, len(run), 128):
            part = run[start : start + 128]
            packed.extend([len(part) - 1, *part])
        run.clear()

    at = 0
    while at < len(raw):
        length, back = 0, 0
        for place in places.get(raw[at : at + 3], [])[:-65:-1]:
            n = 3
            while n < min(130, len(raw) - at) and raw[place + n] == raw[at + n]:
                n += 1
            if n > length:
                length, back = n, at - place
        if length > 3 and back < 1 << 16:
            close()
            packed.extend([length + 125, back >> 8, back & 255])
        else:
            length = 1
            run.append(raw[at])
        for place in range(at, at + length):
            places.setdefault(raw[place : place + 3], []).append(place)
        at += length
    close()
    return bytes(packed)


def _quote(text: str) -> str:
    return f'"{text}"'
