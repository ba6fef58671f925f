"""The two functions of a profile as the C99 header has them: what `mx_quantize` does to a maximum, and to one element under one scale byte."""

from __future__ import annotations

from functools import lru_cache

from mxspec_conformance.kits.c99 import write_c99
from mxspec_lab.smt.ctext import Int, Pointer, Program
from mxspec_lab.smt.terms import Term, resize

#: The statements of `mx_quantize` and `mx_try` that concern the maximum, and one lane. What they leave out (the search for the maximum, a second
#: scale, inputs that are flushed or normalized) no MX rule has, or is no arithmetic.
_DOORS = """
static uint8_t scale_of(const mx_rules *r, uint32_t amax) {
  mx_env v;
  mx_bind(r, 0, &v);
  v.amax = mx_abs(mx_f32(amax));
  return (uint8_t)mx_scale(r, r->value(&v));
}
static uint8_t element_of(const mx_rules *r, uint32_t x, uint8_t scale) {
  mx_env v;
  mx_bind(r, 0, &v);
  v.sf = mx_value(scale, r->scale);
  v.x = mx_f32(x);
  if (v.sf.kind == MX_NAN && r->under_nan >= 0) return (uint8_t)r->under_nan;
  v.scaled = r->scaled(&v);
  return (uint8_t)mx_element(r, v.scaled, v.x, v.sf.kind == MX_NAN);
}
"""


@lru_cache(maxsize=8)
def _source(fmt: str) -> tuple[str, tuple[tuple[str, str, bool], ...]]:
    header = write_c99([fmt])
    return header.text + _DOORS, header.rows


def header_text(fmt: str) -> str:
    """The header of a format, with the doors."""
    return _source(fmt)[0]


def _run(door: str, profile: str, fmt: str, arguments: list[Term], text: str | None) -> tuple[Term, list[Term]]:
    source, rows = _source(fmt)
    program = Program(source if text is None else text)
    rules = program.rules(rows.index((profile, fmt, False)))
    result = program.call(door, Pointer("rules"), *(Int(a, False) for a in arguments), memory={"rules": rules})
    return resize(result.term, 8, is_signed=False), program.unfinished


def header_scale(profile: str, fmt: str, amax: Term, text: str | None = None) -> tuple[Term, list[Term]]:
    """The scale byte (8 bits) of a maximum (32 bits), and where a loop would not have ended; text: a changed header instead."""
    return _run("scale_of", profile, fmt, [amax], text)


def header_element(profile: str, fmt: str, x: Term, scale: Term, text: str | None = None) -> tuple[Term, list[Term]]:
    """The code (8 bits) of an element (32 bits) under a scale byte (8 bits), and where a loop would not have ended."""
    return _run("element_of", profile, fmt, [x, scale], text)
