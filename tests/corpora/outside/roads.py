"""Shared libraries, programs and results files: wrong ones, and right ones of unusual form."""

from __future__ import annotations

import json
import random
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mxspec_conformance.transports.library import header_path

from tests.corpora.outside.entry import KERNELS, Kernel

#: mxfp4 by the rule of OCP, with an axis and a tail; what is wrong is put in where a name in capitals stands.
LIBRARY = r"""
#include <fenv.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif
#include "mxspec_target.h"
@BEFORE@
int32_t mxspec_abi(void) { return MXSPEC_ABI; }
const char *mxspec_describe(void) {
    return "{\"mxspec\":1,\"name\":\"@NAME@\",\"version\":\"1\",\"capabilities\":{\"formats\":[\"mxfp4\"],"
           "\"dtypes\":[\"float32\",\"bfloat16\"],\"functions\":{\"quantize\":[\"axis\",\"pad\"],\"dequantize\":[]}}}";
}
static uint8_t e2m1(double v) {
    static const double mid[7] = {0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0};
    double m = fabs(v);
    int c = 0;
    while (c < 7 && (m > mid[c] || (m == mid[c] && (c & 1)))) c++;
    return (uint8_t)(c | (signbit(v) ? 8 : 0));
}
static float get(const mxspec_quantize_call *q, int64_t i) {
    if (q->dtype == MXSPEC_BFLOAT16) {
        uint32_t u = (uint32_t)((const uint16_t *)q->x)[i] << 16;
        float f;
        memcpy(&f, &u, 4);
        return f;
    }
    return ((const float *)q->x)[i];
}
int32_t mxspec_quantize(const mxspec_quantize_call *q) {
    if (q->dtype == MXSPEC_FLOAT16) return MXSPEC_UNSUPPORTED;
    int64_t rows = q->rows, columns = q->columns;
    int64_t lines = q->axis ? rows : columns, length = q->axis ? columns : rows;
    int64_t whole = (length + 31) / 32 * 32, blocks = whole / 32;
    if (whole != length && !q->pad) return MXSPEC_ERROR;
    @QUANTIZE@
    for (int64_t l = 0; l < lines; l++)
        for (int64_t b = 0; b < blocks; b++) {
            float v[32], top = 0;
            int nan = 0;
            for (int64_t j = 0; j < 32; j++) {
                int64_t at = b * 32 + j;
                v[j] = at >= length ? 0 : get(q, q->axis ? l * columns + at : at * columns + l);
                if (isnan(v[j])) nan = 1;
                if (fabsf(v[j]) > top) top = fabsf(v[j]);
            }
            int e = 0;
            if (top > 0 && !isinf(top)) frexp((double)top, &e);
            int byte = top == 0 ? 0 : isinf(top) ? 254 : e - 1 - 2 + 127;
            if (byte < 0) byte = 0;
            if (byte > 254) byte = 254;
            if (nan) byte = 255;
            @INNER@
            double s = ldexp(1.0, byte - 127);
            for (int64_t j = 0; j < 32; j++) {
                int64_t at = b * 32 + j;
                uint8_t c = nan ? 0 : e2m1(v[j] / s);
                q->codes[q->axis ? l * whole + at : at * columns + l] = c;
            }
            q->scales[q->axis ? l * blocks + b : b * columns + l] = (uint8_t)byte;
        }
    @AFTER@
    return MXSPEC_OK;
}
int32_t mxspec_dequantize(const mxspec_dequantize_call *d) {
    static const double table[8] = {0, .5, 1, 1.5, 2, 3, 4, 6};
    @DEQUANTIZE@
    for (int64_t i = 0; i < d->rows * d->columns; i++) {
        double m = table[d->codes[i] & 7];
        uint8_t s = d->scales[i / 32];
        volatile float y = s == 255 ? NAN : (float)ldexp(d->codes[i] & 8 ? -m : m, s - 127);
        d->values[i] = y;
    }
    return MXSPEC_OK;
}
"""
SLOTS = ("BEFORE", "QUANTIZE", "INNER", "AFTER", "DEQUANTIZE")


def build_library(kernel: Any, folder: Path, slots: dict[str, str]) -> str:
    """The library, compiled."""
    source = LIBRARY.replace("@NAME@", kernel.name)
    for slot in SLOTS:
        source = source.replace(f"@{slot}@", slots.get(slot, ""))
    (folder / "kernel.c").write_text(source, encoding="utf-8")
    out = folder / "kernel.so"
    subprocess.run(
        [
            "cc",
            "-O1",
            "-shared",
            "-fPIC",
            "-ffp-contract=off",
            "-I",
            str(header_path().parent),
            str(folder / "kernel.c"),
            "-lm",
            "-lpthread",
            "-o",
            str(out),
        ],
        check=True,
    )
    return str(out)


def library(name: str, story: str, *, wrong: bool = True, **slots: str) -> None:
    KERNELS[name] = Kernel(name, "shared library", story, wrong, dict, lambda k, folder: build_library(k, folder, slots))


LEAST = "static int64_t calls; static const void *seen; static int64_t seen_rows;"
library("c-right", "nothing is wrong", wrong=False)
library("c-ftz-left", "flushing of subnormals is switched on, and left on", AFTER="_mm_setcsr(_mm_getcsr() | 0x8040);")
library(
    "c-ftz-dequantize",
    "dequantize flushes subnormals, and restores the mode",
    DEQUANTIZE="for (int64_t i = 0; i < d->rows * d->columns; i++) { double m = table[d->codes[i] & 7]; uint8_t s = d->scales[i / 32]; float y = s == 255 ? NAN : (float)ldexp(d->codes[i] & 8 ? -m : m, s - 127); if (fabsf(y) < 1.17549435e-38f) y = 0; d->values[i] = y; } return MXSPEC_OK;",
)
library(
    "c-last-code-unwritten",
    "the last code of a call of several rows is not written",
    AFTER="(void)0;",
    INNER="if (l == lines - 1 && b == blocks - 1 && lines > 4) { for (int64_t j = 0; j < 31; j++) q->codes[q->axis ? l * whole + b * 32 + j : (b * 32 + j) * columns + l] = nan ? 0 : e2m1(v[j] / ldexp(1.0, byte - 127)); q->scales[q->axis ? l * blocks + b : b * columns + l] = (uint8_t)byte; continue; }",
)
library(
    "c-zero-unwritten",
    "codes of zeros are not written, in the belief that outputs are cleared",
    INNER="if (top == 0 && !nan) { q->scales[q->axis ? l * blocks + b : b * columns + l] = 0; continue; }",
)
library("c-one-before", "a byte before the scales is written", AFTER="if (lines > 16) q->scales[-1] = 9;")
library("c-one-beyond", "a byte beyond the codes is written", AFTER="if (lines > 16) q->codes[q->codes_size] = 9;")
library(
    "c-input-written",
    "the input is clamped in place",
    QUANTIZE="if (q->dtype == MXSPEC_FLOAT32) for (int64_t i = 0; i < rows * columns; i++) if (((float *)q->x)[i] > 1e30f) ((float *)q->x)[i] = 1e30f;",
)
library("c-pointer-cache", "the answer before is returned where the pointer is that of the call before", BEFORE="static const void *seen; static int64_t seen_n; static uint8_t old[1 << 16];",
        AFTER="if (q->codes_size <= 1 << 16 && lines > 1) { if (seen == q->x && seen_n == q->codes_size) memcpy(q->codes, old, q->codes_size); else memcpy(old, q->codes, q->codes_size); seen = q->x; seen_n = q->codes_size; }")  # fmt: skip
library(
    "c-axis-ignored",
    "square matrices: the axis is not looked at",
    QUANTIZE="mxspec_quantize_call other = *q; if (rows == columns && !q->axis) { other.axis = 1; return mxspec_quantize(&other); }",
)
library(
    "c-int32-index",
    "indices of 16 bits from 2^16 numbers on",
    QUANTIZE="if (rows * columns > 65536) { mxspec_quantize_call first = *q; if (q->axis && columns <= 65536) { first.rows = 65536 / columns; if (mxspec_quantize(&first)) return 2; memset(q->codes + first.rows * columns, 0, q->codes_size - first.rows * columns); memset(q->scales + first.rows * blocks, 127, q->scales_size - first.rows * blocks); return 0; } }",
)
library("c-static-scratch", "blocks go through a buffer that all threads share", BEFORE="static float shared[32];",
        INNER="memcpy(shared, v, sizeof v); for (volatile int w = 0; w < 300; w++) { } memcpy(v, shared, sizeof v);")  # fmt: skip
library(
    "c-pad-garbage",
    "with pad the tail is read on from the next row",
    INNER="if (q->axis && b * 32 + 32 > length && l + 1 < lines) { int64_t at = length - b * 32; v[at] = get(q, l * columns + length); if (fabsf(v[at]) > top) { top = fabsf(v[at]); if (top > 0 && !isinf(top)) { frexp(top, &e); byte = e - 3 + 127; if (byte < 0) byte = 0; } } }",
)
library(
    "c-bfloat16-low",
    "blocks of bfloat16 subnormals, whose scale would be below the smallest, are zeros",
    wrong=False,
    INNER="if (q->dtype == MXSPEC_BFLOAT16 && top < 1.17549435e-38f && !nan) { byte = 0; memset(v, 0, sizeof v); }",
)
library("c-2000th", "each 2000th call loses a scale", BEFORE=LEAST, AFTER="if (++calls % 2000 == 0) q->scales[0] ^= 1;")
library("c-empty-dies", "no rows: the process ends", QUANTIZE="if (lines == 0) abort();")
library(
    "c-rounding-mode",
    "the rounding mode is changed, and restored",
    wrong=False,
    QUANTIZE="int mode = fegetround(); fesetround(FE_TOWARDZERO); fesetround(mode);",
)
library(
    "c-malloc",
    "answers are made in memory of its own, and copied",
    wrong=False,
    AFTER="uint8_t *mine = malloc(q->codes_size + 1); memcpy(mine, q->codes, q->codes_size); memset(q->codes, 0, q->codes_size); memcpy(q->codes, mine, q->codes_size); free(mine);",
)
library(
    "c-prints",
    "each call writes to stdout and stderr",
    wrong=False,
    AFTER='printf("done %ld\\n", (long)rows); fprintf(stderr, "done\\n"); fflush(stdout);',
)
library(
    "c-locked",
    "a lock around each call",
    wrong=False,
    BEFORE="static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;",
    QUANTIZE="pthread_mutex_lock(&lock);",
    AFTER="pthread_mutex_unlock(&lock);",
)
library(
    "c-refuses-ragged",
    "ragged rows and many columns are not offered",
    wrong=False,
    QUANTIZE="if (q->pad && whole != length) return MXSPEC_UNSUPPORTED; if (columns > 16384) return MXSPEC_UNSUPPORTED;",
)
library(
    "c-refuses-empty", "calls with nothing in them are errors", wrong=False, QUANTIZE="if (rows == 0 || columns == 0) return MXSPEC_ERROR;"
)


# Programs.
PROGRAM = """
import base64, json, sys, os, time, threading
import numpy as np
sys.path[:0] = {path!r}
import mxspec
DESCRIPTION = {{"mxspec": 1, "name": {name!r}, "version": "1", "capabilities": {{"formats": ["mxfp4"], "functions": {{"quantize": [], "dequantize": []}}}}}}
number, kept = 0, {{}}
def write(text):
    sys.stdout.buffer.write(text if isinstance(text, bytes) else text.encode()); sys.stdout.buffer.flush()
def say(document):
    write(json.dumps(document) + "\\n")
def array(a, kind=None):
    a = np.ascontiguousarray(a)
    return {{"dtype": kind or a.dtype.name, "shape": list(a.shape), "base64": base64.b64encode(a.tobytes()).decode()}}
def read(a):
    data = bytes.fromhex(a["hex"]) if "hex" in a else base64.b64decode(a["base64"])
    return np.frombuffer(data, a["dtype"]).reshape(a["shape"])
{head}
for line in sys.stdin:
    request = json.loads(line)
    if request["cmd"] == "start":
        {start}
        say(DESCRIPTION)
    elif request["cmd"] == "stop":
        {stop}
        break
    else:
        number += 1
        given = request["arguments"]
        if request["function"] == "quantize":
            x = read(given["x"])
            t = mxspec.quantize(x, "mxfp4")
            outputs = {{"codes": np.array(t.codes), "scales": np.array(t.scales)}}
        else:
            outputs = {{"values": np.array(mxspec.dequantize(read(given["codes"]), read(given["scales"]), "mxfp4"))}}
        {run}
        reply = {{"id": request["id"], "outputs": {{k: array(v) for k, v in outputs.items()}}}}
        {reply}
        say(reply)
"""


def write_program(kernel: Any, folder: Path, slots: dict[str, str]) -> str:
    """The program, as a command."""
    given = {"head": "", "start": "pass", "stop": "pass", "run": "pass", "reply": "pass"} | slots
    (folder / "program.py").write_text(PROGRAM.format(path=[p for p in sys.path if p], name=kernel.name, **given), encoding="utf-8")
    return f"cmd:{shlex.quote(sys.executable)} -u {shlex.quote(str(folder / 'program.py'))}"


def program(name: str, story: str, *, wrong: bool = True, **slots: str) -> None:
    KERNELS[name] = Kernel(name, "program", story, wrong, dict, lambda k, folder: write_program(k, folder, slots))


program("cmd-right", "nothing is wrong", wrong=False)
program("cmd-50th-dies", "each 50th request ends the program", run="number % 50 == 0 and os._exit(3)")
program(
    "cmd-120th-wrong",
    "each 120th reply has a wrong code",
    run="number % 120 == 0 and outputs.get('codes', np.zeros((1, 1), np.uint8)).__setitem__((0, 0), 15)",
)
program(
    "cmd-by-shape",
    "replies are kept by function and shape from 4096 numbers on",
    run="key = (request['function'], outputs[min(outputs)].shape); outputs = kept.setdefault(key, outputs) if outputs[min(outputs)].size > 4096 else outputs",
)
program("cmd-twice", "each 20th reply is said twice", reply="number % 20 == 0 and say(reply)")
program(
    "cmd-swapped-ids",
    "each 40th reply has the id of the one before",
    reply="reply['id'] = kept['id'] if number % 40 == 0 else reply['id']; kept['id'] = reply['id']",
)
program("cmd-note", "notes between replies", reply="number == 30 and write('note: still here\\n')")
program(
    "cmd-flat",
    "arrays of more than one row are flat",
    reply="[o.__setitem__('shape', [int(np.prod(o['shape']))]) for o in reply['outputs'].values() if o['shape'][0] > 1]",
)
program("cmd-int8", "codes of dtype int64", run="outputs = {k: v.astype(np.int64) if k == 'codes' else v for k, v in outputs.items()}")
program(
    "cmd-transposed",
    "matrices lie in Fortran order",
    reply="reply['outputs'] = {k: dict(array(v.T), shape=list(v.shape)) for k, v in outputs.items()}",
)
program(
    "cmd-big-endian",
    "values in big-endian bytes",
    reply="'values' in outputs and reply['outputs']['values'].__setitem__('base64', base64.b64encode(outputs['values'].astype('>f4').tobytes()).decode())",
)
program(
    "cmd-no-padding",
    "base64 without its padding",
    reply="[o.__setitem__('base64', o['base64'].rstrip('=')) for o in reply['outputs'].values()]",
)
program(
    "cmd-short",
    "of large arrays the last byte is missing",
    reply="[o.__setitem__('base64', base64.b64encode(base64.b64decode(o['base64'])[:-1]).decode()) for o in reply['outputs'].values() if len(o['base64']) > 5000]",
)
program(
    "cmd-no-scales",
    "scales are missing where all are alike",
    reply="'scales' in outputs and outputs['scales'].size > 8 and len(np.unique(outputs['scales'])) == 1 and reply['outputs'].pop('scales')",
)
program(
    "cmd-skips-what-is-hard",
    "blocks with subnormal maxima are skipped and said to be not offered, in every second call alone",
    wrong=False,
    reply="pass",
)
program(
    "cmd-two-lines",
    "replies are spread over several lines",
    reply="number == 10 and (write(json.dumps(reply, indent=1) + '\\n'), globals().__setitem__('say', lambda d: None))",
)
program(
    "cmd-drops-one",
    "one request is not answered",
    reply="number == 25 and globals().__setitem__('reply', None) or None",
    head="_say = say\ndef say(d):\n    d is not None and _say(d)",
)
program(
    "cmd-nan-values",
    "NaN values come as zeros",
    run="outputs = {k: np.nan_to_num(v, nan=0.0, posinf=np.inf, neginf=-np.inf) if k == 'values' else v for k, v in outputs.items()}",
)
program(
    "cmd-restart-wrong",
    "started again, after a request that ended it, answers are a scale short",
    head="FLAG = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'flag')",
    run="'scales' in outputs and os.path.exists(FLAG) and outputs['scales'].shape[0] > 2 and outputs['scales'].__setitem__((-1, -1), 0)\n        if number == 60 and not os.path.exists(FLAG):\n            open(FLAG, 'w').close()\n            os._exit(1)",
)
program("cmd-crlf", "lines end with CR LF", wrong=False, head="def say(d):\n    write(json.dumps(d) + '\\r\\n')")
program(
    "cmd-escapes",
    "texts are written with escapes",
    wrong=False,
    head="import re\ndef say(d):\n    write(re.sub(r'\"(id|outputs|mxspec)\"', lambda m: '\"' + ''.join(chr(92) + 'u%04x' % ord(c) for c in m[1]) + '\"', json.dumps(d)) + '\\n')",
)
program(
    "cmd-hex-capitals",
    "hex in capitals",
    wrong=False,
    head="def array(a, kind=None):\n    a = np.ascontiguousarray(a)\n    return {{'dtype': a.dtype.name, 'shape': list(a.shape), 'hex': a.tobytes().hex().upper()}}".replace(
        "{{", "{"
    ).replace("}}", "}"),
)
program(
    "cmd-blanks",
    "much white space within lines",
    wrong=False,
    head="def say(d):\n    write('  ' + json.dumps(d, separators=('  ,  ', '  :  ')) + '   \\n')",
)
program(
    "cmd-bytewise",
    "replies are written in parts of 1000 bytes",
    wrong=False,
    head="def say(d):\n    text = json.dumps(d) + '\\n'\n    for i in range(0, len(text), 1000):\n        write(text[i : i + 1000])",
)
program(
    "cmd-other-order",
    "members in another order",
    wrong=False,
    reply="reply = {'outputs': dict(reversed(reply['outputs'].items())), 'id': reply['id']}",
)
program("cmd-talks", "notes on stderr for each call", wrong=False, reply="print('call', number, file=sys.stderr)")
program(
    "cmd-thread",
    "replies are made in a thread of their own",
    wrong=False,
    reply="worker = threading.Thread(target=say, args=(reply,)); worker.start(); worker.join(); continue",
)
program("cmd-slow-start", "loads for two seconds", wrong=False, start="time.sleep(2)")
program("cmd-stop-slow", "needs a second to stop", wrong=False, stop="time.sleep(1)")


# Results files.
def record(kernel: Any, folder: Path, change: Callable[[list[str]], Any]) -> str:
    """A bundle, answered by a right target, and changed."""
    target = folder / "target.py"
    target.write_text(
        "import mxspec\nNAME, VERSION, FORMATS = 'recorded', '1', ['mxfp4']\n"
        "def quantize(x, fmt):\n    t = mxspec.quantize(x, fmt)\n    return t.codes, t.scales\n"
        "def dequantize(codes, scales, fmt):\n    return mxspec.dequantize(codes, scales, fmt)\n",
        encoding="utf-8",
    )
    bundle, out = folder / "bundle.jsonl", folder / "results.jsonl"
    subprocess.run(
        [sys.executable, "-m", "mxspec_conformance", "bundle", "--like", str(target), str(bundle)], check=True, capture_output=True
    )
    harness = Path(__file__).resolve().parents[3] / "conformance" / "examples" / "python" / "harness.py"
    with bundle.open() as lines:
        done = subprocess.run([sys.executable, str(harness), str(target)], stdin=lines, stdout=subprocess.PIPE, check=True, text=True)
    changed = change(done.stdout.splitlines())
    out.write_bytes(changed if isinstance(changed, bytes) else ("\n".join(changed) + "\n").encode())
    return str(out)


def results(name: str, story: str, change: Callable[[list[str]], Any], *, wrong: bool = True) -> None:
    KERNELS[name] = Kernel(name, "results file", story, wrong, dict, lambda k, folder: record(k, folder, change))


def edited(line: str, change: Callable[[dict[str, Any]], Any]) -> str:
    document = json.loads(line)
    change(document)
    return json.dumps(document)


def wrong_code(document: dict[str, Any]) -> None:
    for part in document.get("outputs", {}).values():
        part["base64"] = ("P" if part["base64"][0] != "P" else "D") + part["base64"][1:]


def shuffled(lines: list[str]) -> list[str]:
    rest = lines[1:]
    random.Random(3).shuffle(rest)
    return [lines[0], *rest]


results("file-right", "nothing is wrong", lambda lines: lines, wrong=False)
results("file-shuffled", "replies in another order", shuffled, wrong=False)
results("file-crlf", "lines end with CR LF", lambda lines: ("\r\n".join(lines) + "\r\n").encode(), wrong=False)
results("file-no-newline", "the last line has no end", lambda lines: "\n".join(lines).encode(), wrong=False)
results("file-twice-alike", "all replies stand twice, alike", lambda lines: [*lines, *lines[1:]], wrong=False)
results("file-missing-one", "one reply is missing", lambda lines: lines[:40] + lines[41:])
results("file-missing-half", "half of the replies are missing", lambda lines: [lines[0], *lines[1::2]])
results("file-twice-differing", "one reply stands twice, first right, then wrong", lambda lines: [*lines, edited(lines[30], wrong_code)])
results(
    "file-twice-wrong-first",
    "one reply stands twice, first wrong, then right",
    lambda lines: [*lines[:30], edited(lines[30], wrong_code), *lines[30:]],
)
results("file-one-wrong", "one reply is wrong", lambda lines: [*lines[:50], edited(lines[50], wrong_code), *lines[51:]])
results("file-cut", "the last line is cut off", lambda lines: "\n".join(lines).encode()[:-40])
results(
    "file-shifted-ids",
    "ids are those of the next reply",
    lambda lines: [
        lines[0],
        *(
            edited(a, lambda d, b=b: d.__setitem__("id", json.loads(b)["id"]))
            for a, b in zip(lines[1:], [*lines[2:], lines[1]], strict=True)
        ),
    ],
)
results(
    "file-two-descriptions",
    "a second description says another name",
    lambda lines: [lines[0], edited(lines[0], lambda d: d.__setitem__("name", "other")), *lines[1:]],
)
