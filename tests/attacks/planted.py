"""Small targets with one mistake each, or none, as a new user writes them: found, told apart from right ones, never a traceback."""

from __future__ import annotations

from typing import Any

from tests.attacks.model import Attack
from tests.attacks.programs import PROGRAM
from tests.attacks.python_targets import HEAD, REPORTS

#: The model's answers under another name.
Q = "def Q(x, fmt='mxfp4', **k):\n    t = mxspec.quantize(x, fmt, **k)\n    return t.codes, t.scales\n"
#: An implementation of its own, in NumPy alone.
OWN = """
T = np.array([.25, .75, 1.25, 1.75, 2.5, 3.5, 5])
def own(x, least=-127, ties=True, absolute=True):
    b = x.reshape(x.shape[0], -1, 32).astype(np.float64)
    a = np.abs(b).max(-1) if absolute else b.max(-1)
    fine = np.isfinite(a) & (a > 0)
    e = np.where(fine, np.clip(np.frexp(np.where(fine, a, 1))[1] - 3, least, 127), np.where(a > 0, 127, -127))
    q = np.abs(b) * 2.0 ** -e[..., None]
    lo, hi = np.searchsorted(T, q, 'left'), np.searchsorted(T, q, 'right')
    c = np.where(lo % 2, hi, lo) if ties else hi
    return (c.reshape(x.shape) | np.signbit(x) * 8).astype(np.uint8), np.where(np.isnan(a), 255, e + 127).astype(np.uint8)
"""
#: Every scale moved by some steps, the elements right for it.
MOVED = """
def moved(x, fmt, element, by):
    b = x.reshape(x.shape[0], -1, 32); s = mxspec.quantize(x, fmt).scales
    s = np.where((s + by >= 0) & (s < 254), s + by, s).astype(np.uint8)
    with np.errstate(all="ignore"):
        y = (b.astype(np.float64) * 2.0 ** (127 - s[..., None].astype(float))).astype(np.float32)
    return mxspec.encode(y.reshape(x.shape), element), s
"""
QUANTIZE = "def quantize(x, fmt):\n    {}\n"


def small(name: str, what: str, code: int, body: str, *words: str, head: str = Q, arguments: tuple[str, ...] = (), **more: Any) -> Attack:
    files = {"t.py": HEAD + head + body} | dict(more.pop("files", {}))
    return Attack(id=f"repro-{name}", kind="small target", what=what, codes=(code,), words=words, files=files, arguments=arguments or ("check", "t.py", *REPORTS), **({"seconds": 60.0} | more))  # fmt: skip


def one(name: str, what: str, code: int, line: str, *words: str, **more: Any) -> Attack:
    return small(name, what, code, QUANTIZE.format(line), *words, **more)


PLANTED = (
    one("right", "the model's own answers", 0, "return Q(x)"),
    one("base", "an implementation in NumPy alone", 0, "return own(x)", head=OWN),
    one("claim", "claims mx-rceil and is mx-floor", 1, "return Q(x)", "mx-rceil", head=Q + "PROFILE = 'mx-rceil'\n"),
    one("claim-unknown", "claims a profile that there is not", 2, "return Q(x)", "which is no profile", head=Q + "PROFILE = 'mx-rcel'\n"),
    one("ftz", "flushes subnormals", 1, "return Q(np.where(np.abs(x) < 2.0 ** -126, np.copysign(np.float32(0), x), x))"),
    one("ftzsign", "flushes subnormals to +0", 1, "return Q(np.where(np.abs(x) < 2.0 ** -126, np.float32(0), x))"),
    one("nibhigh", "the even element in the high nibble", 1, "c, s = Q(x); return c[:, 1::2] | c[:, ::2] << 4, s", head=Q + "LAYOUT = 'nibble-low'\n"),
    one("off4", "every scale twice as large", 1, "return moved(x, fmt, 'e2m1', 1)", head=MOVED),
    one("low4", "every scale half as large", 1, "return moved(x, fmt, 'e2m1', -1)", head=MOVED),
    one("off8", "every scale twice as large, E4M3", 1, "return moved(x, fmt, 'e4m3', 1)", head=MOVED + "FORMATS = ['mxfp8_e4m3']\n"),
    one("nan-zero", "another scale of zero blocks, NaN lost with it", 0, "c, s = Q(x); z = ~(np.abs(x.reshape(s.shape + (32,))).max(-1) > 0); s[z] = 0x7c; return c, s"),
    one("rnd", "one code in a thousand is wrong, at random", 1, "c, s = Q(x); return c ^ (R.random(c.shape) < .001).astype(np.uint8), s", head=Q + "R = np.random.default_rng()\n"),
    one("transp", "scales of another row", 1, "c, s = Q(x); return c, s.reshape(s.shape[::-1]).T"),
    one("noabs", "the largest number instead of the largest magnitude", 1, "return own(x, absolute=False)", head=OWN),
    one("lower", "scales not below 2^-126", 0, "return own(x, least=-126)", head=OWN),
    one("tieaway", "ties away from zero", 1, "return own(x, ties=False)", "ties away", head=OWN),
    one("lastcol", "wrong from block 8 of a row on", 1, "c, s = Q(x)\n    if s.shape[1] > 8: s = s.copy(); s[:, 8:] ^= 1\n    return c, s"),
    one("bf16div", "the quotient in bfloat16", 1, "import ml_dtypes; s = Q(x)[1]; y = (x.reshape(s.shape + (32,)) * 2.0 ** (127 - s[..., None].astype(float))).astype(np.float32).astype(ml_dtypes.bfloat16).astype(np.float32); return mxspec.encode(np.nan_to_num(y.reshape(x.shape)), 'e2m1'), s"),
    one("wide-codes", "sign-extended 4-bit codes", 1, "t = mxspec.quantize(np.nan_to_num(x, nan=-1., posinf=1., neginf=-1.), fmt); return np.where(t.codes & 8, t.codes | 0xF0, t.codes).astype(np.uint8), t.scales"),
    one("k128", "takes K % 128 == 0 alone", 0, "if x.shape[1] % 128: raise NotImplementedError('K must be a multiple of 128')\n    return Q(x)"),
    one("bf", "takes bfloat16 alone", 1, "return Q(x, profile='quark-0.13/mxfp4/even')", head=Q + "DTYPES = ['bfloat16']\n"),
    one("exc", "raises for more than one row", 1, "if x.shape[0] > 1: raise RuntimeError('CUDA error: invalid configuration argument')\n    return Q(x)", "invalid configuration argument"),
    one("exc2", "raises where there is an infinity", 0, "if np.isinf(x).any(): raise RuntimeError('CUDA error: an illegal memory access')\n    return Q(x)"),
    one("inpl", "writes into its input", 1, "r = Q(x); x *= 0.5; return r"),
    one("kw", "takes further keywords", 0, "return Q(x)", head=Q.replace("**k", "**k")),
    small("kwargs", "a keyword with a default, and any other", 0, "def quantize(x, fmt, *, block_size=32, **kwargs):\n    return Q(x)\n"),
    one("prt", "prints", 0, "print('quantize', x.shape); return Q(x)", head=Q + "print('loading')\n"),
    one("ret-none", "returns None", 1, "return None", "NoneType"),
    one("ret-float", "returns other dtypes", 1, "c, s = Q(x); return c.astype(np.int64), s.astype(np.float32)", "dtype"),
    small("onearg", "takes one argument", 1, "def quantize(x):\n    return Q(x)\n"),
    small("nofn", "no function of the interface", 2, "def quantise(x, fmt):\n    pass\n", "define at least one"),
    small("nof", "no FORMATS", 2, QUANTIZE.format("return Q(x)"), "has no FORMATS", head=Q + "del FORMATS\n"),
    small("noname", "neither NAME nor FORMATS", 2, QUANTIZE.format("return Q(x)"), "has no FORMATS", head=Q + "del NAME, VERSION, FORMATS\n"),
    one("badfmt", "formats that there are not", 2, "return Q(x)", "'fp4'", head=Q + "FORMATS = ['fp4', 'mxfp8']\n"),
    one("version", "a number as VERSION, a text as FORMATS", 0, "return Q(x)", head=Q + "VERSION, FORMATS = 1.0, 'mxfp4'\n"),
    small("syn", "no Python", 2, "NAME = \"n\n", "not valid Python"),
    small("imp", "imports what there is not", 2, "import no_such\n", "no_such"),
    one("slow", "sleeps 2 s while it is imported", 0, "return Q(x)", head=Q + "time.sleep(2)\n"),
    small("deq", "dequantize with two codes swapped", 1, "def dequantize(c, s, fmt):\n    return mxspec.dequantize(np.where(c == 13, 14, np.where(c == 14, 13, c)).astype(np.uint8), s, fmt)\n"),
    small("deq-zero", "dequantize of scale byte 00 gives 0", 1, "def dequantize(c, s, fmt):\n    v = mxspec.dequantize(c, s, fmt).reshape(s.shape + (32,))\n    return np.where(s[..., None] == 0, np.float32(0), v).reshape(c.shape)\n"),
    small("enc", "is given the encode scale, and takes it for the decode scale", 1, "TENSOR_SCALE = 'encode'\ndef quantize(x, fmt, tensor_scale):\n    g = mxspec.TensorScale.from_float('decode', np.float32(tensor_scale))\n    return Q(x, fmt, tensor_scale=g, profile='nvfp4-paper', convert=True)\n", head=Q + "FORMATS = ['nvfp4']\n"),
    small("ts", "tensor_scale() returns the reciprocal", 1, "def tensor_scale(x, fmt):\n    return np.float32(2688) / np.abs(x).max()\ndef quantize(x, fmt, tensor_scale):\n    return Q(x, fmt, tensor_scale=mxspec.TensorScale.from_float('decode', np.float32(tensor_scale)), profile='torchao-0.18/nvfp4/eager')\n", head=Q + "FORMATS = ['nvfp4']\n"),
    small("dot", "products, which nothing judges yet", 2, "def dot(a_codes, a_scales, b_codes, b_scales, fmt):\n    return mxspec.dequantize(a_codes, a_scales, fmt) @ mxspec.dequantize(b_codes, b_scales, fmt).T\n"),
    small("sw", "swizzle, right", 0, "LAYOUTS = ['128x4']\ndef swizzle(scales, layout):\n    if scales.ndim != 2: raise NotImplementedError\n    r, c = scales.shape; R, C = -(-r // 128) * 128, -(-c // 4) * 4\n    p = np.zeros((R, C), np.uint8); p[:r, :c] = scales\n    return p.reshape(R // 128, 4, 32, C // 4, 4).transpose(0, 3, 2, 1, 4).reshape(-1)\n"),
    small("sw2", "swizzle, tiles column by column", 1, "LAYOUTS = ['128x4']\ndef swizzle(scales, layout):\n    r, c = scales.shape; R, C = -(-r // 128) * 128, -(-c // 4) * 4\n    p = np.zeros((R, C), np.uint8); p[:r, :c] = scales\n    return p.reshape(R // 128, 4, 32, C // 4, 4).transpose(3, 0, 2, 1, 4).reshape(-1)\n"),
    small("lazy", "imports its neighbour in a function", 0, "def quantize(x, fmt):\n    from mylib import Q\n    return Q(x)\n", files={"mylib.py": "import mxspec\n" + Q}),
    *(
        Attack(id=f"repro-program-{name}", kind="small target", what=what, codes=codes, words=words, seconds=60, arguments=("check", "cmd:python p.py", "--timeout", "3", *REPORTS), files={"p.py": PROGRAM.format(head="", start="pass", run=run)})
        for name, what, codes, words, run in (
            ("right", "a program", (0,), (), "pass"),
            ("dbg", "a program that prints notes to stdout", (1,), ("print notes to stderr",), "print('debug')"),
            ("badid", "a program that answers another id", (1,), ("the reply is to",), "request['id'] = '0' * 16"),
            ("baddt", "a program that answers another dtype", (1,), (), "say({'id': request['id'], 'outputs': {'codes': {'dtype': 'int4', 'shape': [1], 'base64': ''}, 'scales': array(x)}}); continue"),
        )
    ),
)  # fmt: skip

ATTACKS = PLANTED
