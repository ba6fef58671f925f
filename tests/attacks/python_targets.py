"""Python targets that are hostile, or unusual in an ordinary way."""

from __future__ import annotations

import signal
from pathlib import Path

from tests.attacks.model import Attack, Outcome

HEAD = 'import os, sys, time\nimport numpy as np, mxspec\nNAME, VERSION, FORMATS = "t", "1", ["mxfp4"]\n'
GOOD = "def quantize(x, fmt):\n    t = mxspec.quantize(x, fmt)\n    return t.codes, t.scales\n"
#: A target that does something first, and answers then.
FIRST = "def quantize(x, fmt):\n    {}\n    t = mxspec.quantize(x, fmt)\n    return t.codes, t.scales\n"
REPORTS = ("--json", "r.json", "--html", "r.html", "--junit", "r.xml", "--markdown", "r.md")
CHECK = ("check", "t.py", "--quick", *REPORTS)
SOON = ("check", "t.py", "--quick", "--timeout", "2", *REPORTS)
EVIL = "\\x1b]0;owned\\x07\\x1b[2J<script>alert(1)</script>\\x00\\ud800[/red] [bold]\\x85\\u202e::error::x"
#: The wire, found as a target can find it.
WIRE = "import gc, socket\ndef wire():\n    return next(o for o in gc.get_objects() if isinstance(o, socket.socket) and o.fileno() >= 0)\n"


def first(code: str) -> str:
    """A target whose quantize runs a line of code before it answers."""
    return HEAD + FIRST.format(code)


def raising(code: str) -> str:
    return HEAD + f"def quantize(x, fmt):\n    raise {code}\n"


def declared(line: str) -> str:
    return f"{HEAD}{line}\n{GOOD}"


def target(name: str, what: str, source: str, codes: tuple[int, ...] = (0,), *words: str, **more: object) -> Attack:
    given = {"arguments": CHECK, "kind": "python target", "files": {"t.py": source}} | more
    return Attack(id=name, what=what, codes=codes, words=words, **given)  # type: ignore[arg-type]


def not_run(folder: Path, _: Outcome) -> str:
    return "code of the target ran in the judge's process" if (folder / "ran").exists() else ""


FORK = "def quantize(x, fmt):\n    {}\n" + "\n".join(GOOD.splitlines()[1:]) + "\n"

MESSAGES = (
    target("py-msg-evil", "message with ANSI, HTML, XML controls, surrogates, markup", raising(f"ValueError('{EVIL}')"), (1,), quick=True),
    target("markup-path", "message 'cannot open [/opt/kernels/lut.bin]'", raising("OSError('cannot open [/opt/kernels/lut.bin]')"), (1,), "cannot open [/opt/kernels/lut.bin]"),
    target("markup-dtype", "message 'expected [torch.bfloat16]'", raising("TypeError('expected [torch.bfloat16] tensors')"), (1,), "expected [torch.bfloat16] tensors"),
    target("markup-unsupported", "NotImplementedError with markup", raising("NotImplementedError('[/bold] no')"), (2,), "[/bold] no"),
    target("ansi-msg", "message with escape sequences alone", raising("ValueError('\\x1b]0;owned\\x07\\x1b[2Jboo')"), (1,), "boo"),
    target("return-msg", "message with carriage returns that write over the line", raising("ValueError('bad\\rmxspec: all pass')"), (1,), check=lambda _, o: "a carriage return reaches the terminal" if b"\r" in o.out else ""),
    target("surrogate-msg", "message with half a character", raising("ValueError('half \\ud800')"), (1,), "half"),
    target("py-msg-100mb", "exception with a 100 MB message", raising("ValueError('x' * 100_000_000)"), (1,), "100000000 characters"),
    target("py-notimpl-100mb", "NotImplementedError with a 100 MB message", raising("NotImplementedError('x' * 100_000_000)"), (2,), "100000000 characters", memory=400),
    target("py-exc-name-evil", "exception class named with ANSI, HTML, 1 MB", raising(f"type('{EVIL}' + 'n' * 1_000_000, (Exception,), {{}})('x')"), (1,)),
    target("py-exc-str-raises", "an exception whose str() raises", HEAD + "class E(Exception):\n    def __str__(self):\n        raise RuntimeError\ndef quantize(x, fmt):\n    raise E\n", (1,), "its message cannot be read"),
    target("py-notimpl-strsub", "NotImplementedError whose text is a str subclass of the target", HEAD + "class S(str):\n    def __str__(self):\n        return self\ndef quantize(x, fmt):\n    raise NotImplementedError(S('no'))\n", (2,), "no"),
    target("py-name-evil", "NAME with ANSI, HTML, markup, NUL, half a character", declared(f"NAME = '{EVIL}'"), quick=True),
    target("ansi-name", "NAME with escape sequences", declared("NAME = 'x\\x1b]0;owned\\x07'")),
    target("surrogate-name", "NAME with half a character", declared("NAME = 'n\\ud800'")),
    target("py-name-100mb", "NAME of 100 MB", declared("NAME = 'n' * 100_000_000"), memory=400),
    target("py-name-markup-fail", "NAME '[/] [bold' and failing answers", HEAD + "NAME = '[/] [bold'\ndef quantize(x, fmt):\n    t = mxspec.quantize(x, fmt)\n    return t.codes ^ 1, t.scales\n", (1,), "[/] [bold"),
    target("py-import-exc-evil", "import raises with an evil message", HEAD + f"raise ValueError('{EVIL}')\n", (2,)),
    target("py-import-exc-100mb", "import raises with a 100 MB message", HEAD + "raise ValueError('x' * 100_000_000)\n", (2,), "characters)"),
    target("py-import-exit0", "import calls sys.exit(0)", HEAD + "sys.exit(0)\n", (2,), "SystemExit"),
    target("py-import-segv", "import dies by a signal", HEAD + "import signal\nos.kill(os.getpid(), signal.SIGSEGV)\n", (2,), "SIGSEGV"),
    target("py-import-hang", "import never ends, --timeout 2", HEAD + "while True:\n    time.sleep(1)\n", (2,), "did not load within 30 s", arguments=SOON, seconds=60),
    target("py-import-2nd-hang", "the first import works, a call crashes, the second import hangs", HEAD + "if os.path.exists('once'):\n    time.sleep(1000)\nopen('once', 'w').close()\ndef quantize(x, fmt):\n    os._exit(9)\n", (1,), "did not start again", arguments=SOON, seconds=70),
)  # fmt: skip

WIRES = (
    target("py-pipe-partial", "writes a header that announces 1 GB to every descriptor, then hangs", HEAD + "import struct\ndef quantize(x, fmt):\n    for fd in range(3, 5000):\n        try:\n            os.write(fd, struct.pack('<4sIQ', b'mxw1', 20, 1 << 30))\n        except OSError:\n            pass\n    time.sleep(1000)\n", (1,), arguments=SOON),
    target("pipe-partial", "writes into its wire a header that announces 1 GB, then hangs", HEAD + WIRE + "import struct\ndef quantize(x, fmt):\n    wire().sendall(struct.pack('<4sIQ', b'mxw1', 20, 1 << 30))\n    time.sleep(1000)\n", (1,), "16 bytes of a reply without its end", arguments=SOON),
    target("pipe-partial-3", "writes 3 bytes of a header, then hangs", HEAD + WIRE + "def quantize(x, fmt):\n    wire().sendall(b'mxw')\n    time.sleep(1000)\n", (1,), "3 bytes of a reply", arguments=SOON, quick=True),
    target("pipe-huge", "announces 2^62 bytes", HEAD + WIRE + "import struct\ndef quantize(x, fmt):\n    wire().sendall(struct.pack('<4sIQ', b'mxw1', 20, 1 << 62))\n    time.sleep(1000)\n", (1,), "wrote into the judge's wire", arguments=SOON),
    target("pipe-neg", "announces 2^64 - 5 bytes", HEAD + WIRE + "import struct\ndef quantize(x, fmt):\n    wire().sendall(struct.pack('<4sIq', b'mxw1', 20, -5))\n    time.sleep(1000)\n", (1,), "wrote into the judge's wire", arguments=SOON),
    target("pipe-garbage", "a message that is none", HEAD + WIRE + "def quantize(x, fmt):\n    wire().sendall(os.urandom(4096))\n    time.sleep(1000)\n", (1,), "wrote into the judge's wire", arguments=SOON),
    target("pipe-object", "a pickle of an int, with the length that multiprocessing writes", HEAD + WIRE + "import pickle, struct\ndef quantize(x, fmt):\n    p = pickle.dumps(7)\n    wire().sendall(struct.pack('!i', len(p)) + p)\n    time.sleep(1000)\n", (1,), arguments=SOON),
    target("pipe-exec", "a pickle that runs code in the judge", HEAD + WIRE + "import pickle, struct\nclass E:\n    def __reduce__(self):\n        return (eval, (\"open('ran', 'w').close()\",))\ndef quantize(x, fmt):\n    p = pickle.dumps(E())\n    wire().sendall(struct.pack('!i', len(p)) + p)\n    time.sleep(1000)\n", (1,), arguments=SOON, check=not_run, quick=True),
    target("pipe-okshape", "a forged reply with arrays of another shape", HEAD + WIRE + "def quantize(x, fmt):\n    from mxspec_conformance.transports.frames import write_frame\n    f = sys._getframe()\n    while f.f_code.co_name != 'serve_socket':\n        f = f.f_back\n    write_frame(wire(), f.f_locals['call'], 'ok', (np.zeros(7, 'u1'), np.zeros(7, 'u1')))\n    time.sleep(1000)\n", (1,), arguments=SOON),
    target("pipe-oktype", "a forged reply that is a text", HEAD + WIRE + "def quantize(x, fmt):\n    from mxspec_conformance.transports.frames import write_frame\n    f = sys._getframe()\n    while f.f_code.co_name != 'serve_socket':\n        f = f.f_back\n    write_frame(wire(), f.f_locals['call'], 'ok', 'pass')\n    time.sleep(1000)\n", (1,), arguments=SOON),
    target("pipe-kind", "a forged reply of a kind that there is not", HEAD + WIRE + "def quantize(x, fmt):\n    from mxspec_conformance.transports.frames import write_frame\n    f = sys._getframe()\n    while f.f_code.co_name != 'serve_socket':\n        f = f.f_back\n    write_frame(wire(), f.f_locals['call'], '\\x1b[2J', ('', ''))\n    time.sleep(1000)\n", (1,), arguments=SOON),
    target("pipe-twice", "a forged second reply, taken for that to the next call", HEAD + WIRE + "def quantize(x, fmt):\n    from mxspec_conformance.transports.frames import write_frame\n    f = sys._getframe()\n    while f.f_code.co_name != 'serve_socket':\n        f = f.f_back\n    t = mxspec.quantize(x, fmt)\n    write_frame(wire(), f.f_locals['call'], 'ok', (t.codes, t.scales))\n    return t.codes, t.scales\n", (1,), "judge's wire", arguments=SOON),
    target("stale-answer", "answers late, from a thread", HEAD + "import threading\n" + GOOD, (0,)),
    target("py-fork-answers-twice", "fork returns in both: both processes answer", first("os.fork()"), (0,), quick=True),
    target("py-fork-pipe-crash", "forks a child that keeps the wire open, then dies", HEAD + "def quantize(x, fmt):\n    if os.fork() == 0:\n        time.sleep(30)\n    os._exit(9)\n", (1,), "exit code 9", arguments=("check", "t.py", "--quick", "--timeout", "20", *REPORTS)),
    target("c-fork-pipe-crash", "the same by C's fork, of which Python knows nothing", HEAD + "import ctypes\ndef quantize(x, fmt):\n    if ctypes.CDLL(None).fork() == 0:\n        time.sleep(30)\n    os._exit(9)\n", (1,), "exit code 9", arguments=("check", "t.py", "--quick", "--timeout", "20", *REPORTS)),
    target("py-closefds", "closes every descriptor", first("os.closerange(3, 5000)"), (1,), "the process died"),
    target("py-close-012", "closes 0, 1 and 2", first("os.closerange(0, 3)")),
    target("py-print-mb", "prints megabytes", first("print('x' * 3_000_000); os.write(1, b'y' * 100_000); os.write(2, b'z' * 100_000)")),
)  # fmt: skip

DECLARED = (
    target("py-formats-strenum", "FORMATS holds a StrEnum's member", declared("import enum\nclass F(enum.StrEnum):\n    A = 'mxfp4'\nFORMATS = [F.A]"), quick=True),
    target("py-formats-object", "FORMATS holds the model's own format", declared("from mxspec.formats import get_block\nFORMATS = [get_block('mxfp4')]")),
    target("py-formats-npstr", "FORMATS is an array of text", declared("FORMATS = np.array(['mxfp4'])")),
    target("py-formats-infinite", "FORMATS is an iterator without end", declared("import itertools\nFORMATS = itertools.repeat('mxfp4')"), (2,), "more than 1000 names"),
    target("py-formats-bytes", "FORMATS = b'mxfp4'", declared("FORMATS = b'mxfp4'"), (2,), "FORMATS is a bytes"),
    target("py-formats-int", "FORMATS = 4", declared("FORMATS = 4"), (2,), "FORMATS is an int"),
    target("py-formats-none", "FORMATS = [None]", declared("FORMATS = [None]"), (2,), "FORMATS holds a NoneType"),
    target("py-formats-dup", "FORMATS names one twice", declared("FORMATS = ['mxfp4', 'mxfp4']")),
    target("py-formats-raises", "FORMATS raises while it is read", declared("class L:\n    def __iter__(self):\n        raise RuntimeError('[/x]')\nFORMATS = L()"), (2,), "RuntimeError"),
    target("py-profile-object", "PROFILE = object()", declared("PROFILE = object()"), (2,), "PROFILE is an object"),
    target("py-profile-path", "PROFILE = pathlib.Path(...)", declared("import pathlib\nPROFILE = pathlib.Path('mx-floor')"), (2,), "PROFILE is a PosixPath"),
    target("py-profile-list", "PROFILE = [3]", declared("PROFILE = [3]"), (2,), "PROFILE holds an int"),
    target("py-profile-model", "PROFILE is the model's own object", declared("PROFILE = mxspec.get_profile('mx-floor', 'mxfp4')"), (0,), "mx-floor"),
    target("py-profile-none", "PROFILE = None", declared("PROFILE = None")),
    target("py-srbits-np", "SR_BITS = np.int64(8)", declared("SR_BITS = np.int64(8)")),
    target("py-srbits-text", "SR_BITS = '8'", declared("SR_BITS = '8'"), (2,), "SR_BITS = a str"),
    target("py-arrays-list", "ARRAYS = ['numpy']", declared("ARRAYS = ['numpy']"), (2,), "ARRAYS is a list"),
    target("py-arrays-enum", "ARRAYS is a StrEnum's member", declared("import enum\nclass A(enum.StrEnum):\n    N = 'numpy'\nARRAYS = A.N")),
    target("py-device-object", "DEVICE = object()", declared("DEVICE = object()")),
    target("py-version-tuple", "VERSION = (1, 2)", declared("VERSION = (1, 2)"), (0,), "(1, 2)"),
    target("py-version-strsub", "VERSION is a str subclass of the target", declared("class S(str):\n    def __getitem__(self, key):\n        raise RuntimeError\nVERSION = S('1')")),
    target("py-name-raises", "NAME's str() raises", declared("class N:\n    def __str__(self):\n        raise RuntimeError\nNAME = N()"), (2,), "NAME is a N without a text"),
    target("py-module-getattr", "the module answers every name", declared("def __getattr__(name):\n    raise RuntimeError(name)"), (2,)),
    target("py-deq-subclass", "dequantize returns an ndarray subclass that the target defines", HEAD + GOOD + "class A(np.ndarray):\n    def __reduce__(self):\n        raise RuntimeError\ndef dequantize(codes, scales, fmt):\n    return mxspec.dequantize(codes, scales, fmt).view(A)\n"),
    target("py-ok-masked-right", "answers are masked arrays", HEAD + "def quantize(x, fmt):\n    t = mxspec.quantize(x, fmt)\n    return np.ma.array(t.codes), np.ma.array(t.scales)\n"),
    target("py-huge-broadcast-4g", "codes = broadcast_to(0, (2^32,))", HEAD + "def quantize(x, fmt):\n    return np.broadcast_to(np.uint8(0), (2 ** 32,)), np.zeros(1, np.uint8)\n", (1,), "codes have shape (4294967296,)", arguments=SOON),
    target("py-huge-right-shape", "scales = broadcast_to(0, (2^40, 1))", HEAD + "def quantize(x, fmt):\n    return mxspec.quantize(x, fmt).codes, np.broadcast_to(np.uint8(0), (2 ** 40, 1))\n", (1,), "scales have shape", arguments=SOON),
)  # fmt: skip

PROCESSES = (
    target("py-segv", "dies by a signal", HEAD + "import ctypes\ndef quantize(x, fmt):\n    ctypes.string_at(0)\n", (1,), "SIGSEGV"),
    target("py-exit0", "os._exit(0)", HEAD + "def quantize(x, fmt):\n    os._exit(0)\n", (1,), "exit code 0"),
    target("py-loop", "never answers", HEAD + "def quantize(x, fmt):\n    while True:\n        pass\n", (1,), "no answer within 2 s", arguments=SOON),
    target("py-total", "every call takes a while, --total-timeout 3", first("time.sleep(0.5)"), (1,), "all calls together may take 3 s", arguments=("check", "t.py", "--quick", "--total-timeout", "3", *REPORTS)),
    target("py-sigstop", "stops itself", HEAD + "import signal\ndef quantize(x, fmt):\n    os.kill(os.getpid(), signal.SIGSTOP)\n", (1,), "no answer within 2 s", arguments=SOON),
    target("py-atexit-hang", "an exit handler that hangs", declared("import atexit\natexit.register(time.sleep, 1000)")),
    target("py-fork-child", "os.fork(): the child sleeps 30 s", first("os.fork() or time.sleep(30)")),
    target("py-popen-child", "subprocess 'sleep 30' left behind", first("import subprocess; subprocess.Popen(['sleep', '30'])"), quick=True),
    target("py-daemon", "a double fork with a session of its own", HEAD + "def quantize(x, fmt):\n    if os.fork() == 0:\n        os.setsid()\n        if os.fork() == 0:\n            time.sleep(30)\n        os._exit(0)\n    os.wait()\n    t = mxspec.quantize(x, fmt)\n    return t.codes, t.scales\n", quick=True),
    target("py-multiprocessing", "uses multiprocessing.Pool", HEAD + "import multiprocessing\ndef work(x):\n    t = mxspec.quantize(x, 'mxfp4')\n    return t.codes, t.scales\n_pool = None\ndef quantize(x, fmt):\n    global _pool\n    _pool = _pool or multiprocessing.Pool(1)\n    return _pool.map(work, [x])[0]\n", quick=True),
    target("py-multiprocessing-spawn", "the same with processes that import the file anew", HEAD + "import multiprocessing\ndef work(x):\n    t = mxspec.quantize(x, 'mxfp4')\n    return t.codes, t.scales\n_pool = None\ndef quantize(x, fmt):\n    global _pool\n    _pool = _pool or multiprocessing.get_context('spawn').Pool(1)\n    return _pool.map(work, [x])[0]\n"),
    target("py-threads", "uses threads", HEAD + "from concurrent.futures import ThreadPoolExecutor\n_pool = ThreadPoolExecutor(2)\ndef quantize(x, fmt):\n    t = _pool.submit(mxspec.quantize, x, fmt).result()\n    return t.codes, t.scales\n"),
    target("py-subprocess", "asks a subprocess", first("import subprocess; assert subprocess.run(['echo', 'a'], capture_output=True).stdout")),
    target("py-kill-parent-int", "os.kill(getppid(), SIGINT)", first("import signal; os.kill(os.getppid(), signal.SIGINT)"), (0,)),
    target("py-kill-parent-term", "SIGTERM to the parent", first("import signal; os.kill(os.getppid(), signal.SIGTERM)"), (0,)),
    target("py-kill-parent-kill", "SIGKILL to the parent", first("import signal; os.kill(os.getppid(), signal.SIGKILL)"), (1,), "the process died"),
    target("py-killpg", "os.killpg(0, SIGTERM), the idiom of cleaning up", first("os.killpg(0, 15)"), (1,), "SIGTERM", quick=True),
    target("py-oom", "takes memory until it has none", HEAD + "import resource\ndef quantize(x, fmt):\n    resource.setrlimit(resource.RLIMIT_AS, (1 << 31, 1 << 31))\n    return np.zeros(1 << 40, np.uint8)\n", (1,)),
    target("i-loop-term-4.0", "SIGTERM while a target loops (timeout 60 s)", HEAD + "def quantize(x, fmt):\n    while True:\n        pass\n", (143,), signal=(signal.SIGTERM, 3.0), quick=True),
    target("i-loop-kill-4.0", "SIGKILL while a target loops", HEAD + "def quantize(x, fmt):\n    while True:\n        pass\n", (-9,), signal=(signal.SIGKILL, 3.0), quick=True),
    target("i-loop-int-4.0", "Ctrl-C while a target loops", HEAD + "def quantize(x, fmt):\n    while True:\n        pass\n", (130,), "stopped", signal=(signal.SIGINT, 3.0)),
)  # fmt: skip

FILES = (
    target("py-file-esc", "a file name with an escape sequence", "", files={"a\x1b[31mb.py": HEAD + GOOD}, arguments=("check", "a\x1b[31mb.py", "--quick", *REPORTS)),
    target("py-file-space", "a file name with blanks and brackets", "", files={"a b [/red].py": HEAD + GOOD}, arguments=("check", "a b [/red].py", "--quick", *REPORTS)),
    target("py-file-numpy", "a target called numpy.py", "", files={"numpy.py": "import mxspec\nNAME, VERSION, FORMATS = 't', '1', ['mxfp4']\n" + GOOD}, arguments=("check", "numpy.py", "--quick", *REPORTS)),
    target("py-file-json", "a target called json.py", "", files={"json.py": HEAD + GOOD}, arguments=("check", "json.py", "--quick", *REPORTS)),
    target("py-file-nul", "the module 'a..b'", "", (2,), arguments=("check", "a..b", "--quick")),
    *(
        target(f"py-cwd-{name}", f"the working folder holds an unrelated {name}.py that raises", "", files={"t.py": HEAD + GOOD, f"{name}.py": "raise RuntimeError('not me')\n"}, quick=name == "types")
        for name in ("pickle", "signal", "types", "queue", "random", "tempfile", "click", "socket", "secrets", "json", "struct")
    ),
    target("py-sibling-late", "a function imports the file beside it", "", files={"t.py": HEAD + "def quantize(x, fmt):\n    from mylib import answer\n    return answer(x, fmt)\n", "mylib.py": "import mxspec\ndef answer(x, fmt):\n    t = mxspec.quantize(x, fmt)\n    return t.codes, t.scales\n"}, quick=True),
    target("two-one-absent", "two targets, one of which does not import", "", (2,), "does not import", files={"a.py": HEAD + GOOD, "b.py": "import no_such_library\n"}, arguments=("check", "a.py", "b.py", "--quick", *REPORTS), check=lambda f, _: "" if (f / "r.json").is_file() else "no result was written"),
    target("two-badge", "two targets with --badge and --html", "", files={"a.py": HEAD + GOOD, "b.py": HEAD + GOOD}, arguments=("check", "a.py", "b.py", "--quick", *REPORTS, "--badge", "badge.json"), check=lambda f, _: "" if (f / "r.json").is_file() and (f / "r.html").is_file() else "files are missing"),
)  # fmt: skip

ATTACKS = (*MESSAGES, *WIRES, *DECLARED, *PROCESSES, *FILES)
