"""Programs (`cmd:`) and shared libraries that are hostile."""

from __future__ import annotations

import signal
import sys
from functools import partial
from pathlib import Path

from mxspec_conformance.transports.library import header_path

from tests.attacks.model import Attack
from tests.attacks.python_targets import REPORTS

#: A program that speaks the protocol: `quantize` of mxfp4. What it does wrong is put in by `{start}` and `{run}`.
PROGRAM = """
import base64, json, os, sys, time
import numpy as np, mxspec
DESCRIPTION = {{"mxspec": 1, "name": "prog", "version": "1", "capabilities": {{"formats": ["mxfp4"], "functions": {{"quantize": []}}}}}}
def say(document):
    text = document if isinstance(document, str) else json.dumps(document)
    sys.stdout.write(text + "\\n"); sys.stdout.flush()
def array(a):
    return {{"dtype": "uint8", "shape": list(a.shape), "base64": base64.b64encode(a.tobytes()).decode()}}
{head}
for line in sys.stdin:
    request = json.loads(line)
    if request["cmd"] == "start":
        {start}
        say(DESCRIPTION)
    elif request["cmd"] == "stop":
        break
    else:
        x = request["arguments"]["x"]
        x = np.frombuffer(base64.b64decode(x["base64"]), "<f4").reshape(x["shape"])
        {run}
        t = mxspec.quantize(x, "mxfp4")
        say({{"id": request["id"], "outputs": {{"codes": array(t.codes), "scales": array(t.scales)}}}})
"""


def program(name: str, what: str, codes: tuple[int, ...] = (0,), *words: str, head: str = "", start: str = "pass", run: str = "pass", command: str = "cmd:python p.py", timeout: str = "3", **more: object) -> Attack:  # fmt: skip
    given = {
        "files": {"p.py": PROGRAM.format(head=head, start=start, run=run)},
        "arguments": ("check", command, "--quick", "--timeout", timeout, *REPORTS),
    } | more  # fmt: skip
    return Attack(id=name, kind="process", what=what, codes=codes, words=words, **given)  # type: ignore[arg-type]


def fail(text: str) -> str:
    return f"say({{'id': request['id'], 'error': {{'message': {text}}}}}); continue"


EVIL = "'\\x1b]0;owned\\x07<script>alert(1)</script>\\ud800[/red] ::error::x'"

PROGRAMS = (
    program("pr-good", "a conforming program (control)"),
    program("pr-surrogate", "an error's message with half characters, HTML, ANSI, markup", (1,), run=fail(EVIL), quick=True),
    program("pr-name-surrogate", "a description's name with half a character and ANSI", head=f"DESCRIPTION['name'] = {EVIL}"),
    program("pr-skip-huge", "skipped with a 100 MB reason", (2,), "100000000 characters", run="say({'id': request['id'], 'skipped': {'reason': 'x' * 100_000_000}}); continue", memory=1500, seconds=60, timeout="30"),
    program("pr-flood-valid-json", "a reply of 200 MB of '[],[],...'", (1,), run="say('[' + '[],' * 70_000_000 + '0]'); continue", memory=1500, seconds=120, timeout="20"),
    program("pr-stderr-ansi", "escape sequences on stderr", head="sys.stderr.write('\\x1b]0;owned\\x07\\x1b[2Jred\\n'); sys.stderr.flush()"),
    program("pr-stderr-return", "carriage returns on stderr", head="sys.stderr.write('a\\rmxspec: pass\\n'); sys.stderr.flush()", check=lambda _, o: "a carriage return reaches the terminal" if b"\r" in o.err else ""),
    program("pr-stderr-crash-ansi", "last words with ANSI and markup, then exit", (1,), run="sys.stderr.write('\\x1b[31m[/red] dead\\n'); sys.stderr.flush(); os._exit(3)"),
    program("pr-stderr-flood", "500 MB on stderr", run="os.write(2, b'x' * 20_000_000)"),
    program("pr-deep-start", "a description of 10^5 brackets", (2,), "nested too deeply", start="say('[' * 100_000); continue"),
    program("pr-deep", "a reply of 10^5 brackets", (1,), "nested too deeply", run="say('[' * 100_000); continue", quick=True),
    program("pr-bigint", "a reply with an integer of 10,000 digits", (1,), run="say('{\"id\": ' + '9' * 10_000 + '}'); continue"),
    program("pr-garbage", "garbage", (1,), "no reply", run="os.write(1, os.urandom(1000) + b'\\n'); continue"),
    program("pr-grandchild", "sh leaves 'sleep 30 &' behind", command="cmd:sh -c 'sleep 30 & exec python p.py'", quick=True),
    program("pr-daemon", "leaves a daemon with a session of its own", command="cmd:sh -c 'setsid sleep 30 & exec python p.py'"),
    program("pr-sh-wrapper", "sh -c 'python p.py; true', which hangs", (1,), "no answer within 3 s", run="time.sleep(1000)", command="cmd:sh -c 'python p.py; true'", quick=True),
    program("pr-grandchild-pipe", "exits, and a grandchild keeps stdout open", (1,), "exit code 5", run="os.fork() or time.sleep(30); os._exit(5)", timeout="20"),
    program("pr-trap-kill0", "a wrapper with trap 'kill 0' EXIT", (0, 1), command="cmd:sh -c \"trap 'kill 0' EXIT; python p.py\"", quick=True),
    program("pr-close-stdout", "closes stdout and lives on", (1,), "closed its stdout", run="os.close(1); time.sleep(1000)", timeout="20"),
    program("pr-start-hang", "never answers start", (2,), "did not answer start", "flush stdout", start="time.sleep(1000)", seconds=60),
    program("pr-start-unflushed", "answers, and does not flush", (2,), "flush stdout", head="def say(document):\n    sys.stdout.write(json.dumps(document) + '\\n')", seconds=60, environment={"PYTHONUNBUFFERED": ""}),
    program("pr-sigstop", "stops itself", (1,), "no answer within 3 s", run="import signal; os.kill(os.getpid(), signal.SIGSTOP)"),
    program("pr-cmd-empty", "cmd:", (2,), "names no program", command="cmd:", quick=True),
    program("pr-cmd-blank", "'cmd:   '", (2,), "names no program", command="cmd:   "),
    program("pr-cmd-quote", "a quote without an end", (2,), "does not start", command="cmd:python 'p.py"),
    program("pr-cmd-absent", "no such program", (2,), "there is no program", command="cmd:/no/such/program"),
    program("pr-cmd-dir", "a folder", (2,), "there is no program", command="cmd:/"),
    program("pr-cmd-true", "ends at once", (2,), "the process ended (exit code 0)", command="cmd:true"),
    program("pr-cmd-cat", "says what it hears", (2,), command="cmd:cat"),
    program("pr-cmd-yes", "never stops talking", (2,), command="cmd:yes"),
    program("pr-cmd-devzero", "says zeros", (2,), "longer than", command="cmd:cat /dev/zero", memory=1200),
    program("i-cmd-term-4.0", "SIGTERM while a program hangs", (143,), run="time.sleep(1000)", signal=(signal.SIGTERM, 3.0), timeout="60"),
    program("i-cmd-kill-4.0", "SIGKILL while a program hangs", (-9,), run="time.sleep(1000)", signal=(signal.SIGKILL, 3.0), timeout="60"),
)  # fmt: skip

#: A library: decode of e2m1, and what is put in.
LIBRARY = """
#include "mxspec_target.h"
#include <cfenv>
#include <clocale>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <unistd.h>
#include <string>
extern "C" {{
int mxspec_abi(void) {{ return MXSPEC_ABI; }}
{before}
const char *mxspec_describe(void) {{
    {describe}
    return "{{\\"mxspec\\":1,\\"name\\":\\"lib\\",\\"version\\":\\"1\\",\\"capabilities\\":{{\\"functions\\":{{\\"decode\\":[]}},\\"elements\\":[\\"e2m1\\"]}}}}";
}}
const char *mxspec_message(void) {{ return {message}; }}
int mxspec_decode(const mxspec_decode_call *call) {{
    static const float table[8] = {{0, .5f, 1, 1.5f, 2, 3, 4, 6}};
    {run}
    for (int64_t i = 0; i < (int64_t)call->count; i++) call->values[i] = call->codes[i] & 8 ? -table[call->codes[i] & 7] : table[call->codes[i] & 7];
    return 0;
}}
}}
"""


def build(folder: Path, source: str) -> None:
    import subprocess

    (folder / "lib.cpp").write_text(source, "utf-8")
    command = ["g++", "-shared", "-fPIC", "-I", str(header_path().parent), "lib.cpp", "-o", "lib.so"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)


def _build_renamed(folder: Path) -> None:
    build(folder, LIBRARY.format(before="", describe="", message='"none"', run=""))
    (folder / "lib.so").rename(folder / "l 'ib-\u00e9.so")


def library(name: str, what: str, codes: tuple[int, ...] = (0,), *words: str, before: str = "", describe: str = "", message: str = '"none"', run: str = "", timeout: str = "2", **more: object) -> Attack:  # fmt: skip
    source = LIBRARY.format(before=before, describe=describe, message=message, run=run)
    given = {"prepare": partial(build, source=source), "arguments": ("check", "lib.so", "--timeout", timeout, *REPORTS)} | more
    return Attack(id=name, kind="shared library", what=what, codes=codes, words=words, **given)  # type: ignore[arg-type]


CONSTRUCTOR = "__attribute__((constructor)) static void begin() {{ {} }}"

LIBRARIES = (
    library("so-good", "a conforming library (control)"),
    library("so-partial", "leaves the last values unwritten", (1,), run="for (int64_t i = 0; i + 1 < (int64_t)call->count; i++) call->values[i] = call->codes[i] & 8 ? -table[call->codes[i] & 7] : table[call->codes[i] & 7]; return 0;"),
    library("so-round-up", "sets the rounding mode in each call", run="fesetround(FE_UPWARD);"),
    library("so-locale", "setlocale(LC_ALL, \"\")", run='setlocale(LC_ALL, "");'),
    library("so-name", "a library's name with a blank, a quote and letters of elsewhere", arguments=("check", "l 'ib-\u00e9.so", *REPORTS), prepare=_build_renamed),
    library("so-segv", "dies by a signal", (1,), "SIGSEGV", run="raise(SIGSEGV);"),
    library("so-describe-huge", "describes itself with 300 MB", (2,), "at most 1048576 are read", describe="static std::string s(300000000, 'x'); return s.c_str();", seconds=60),
    library("so-describe-deep", "describes itself with 10^5 brackets", (2,), "nested too deeply", describe="static std::string s(100000, '['); return s.c_str();"),
    library("so-ctor-segv", "its constructor dies by a signal", (2,), "SIGSEGV", before=CONSTRUCTOR.format("raise(SIGSEGV);").replace("{{", "{").replace("}}", "}")),
    library("so-ctor-loop", "its constructor never ends", (2,), "did not load within 30 s", before=CONSTRUCTOR.format("for (;;) pause();").replace("{{", "{").replace("}}", "}"), seconds=60),
    library("so-dtor-loop", "its destructor never ends", before="__attribute__((destructor)) static void end() { for (;;) pause(); }"),
    library("so-message-evil", "a message with ANSI, HTML, invalid UTF-8, markup", (1,), message='"\\x1b[31m<script>alert(1)</script>\\xff [/x]"', run="return 2;"),
    library("so-message-path", "a message 'cannot open [/opt/lut.bin]'", (1,), "cannot open [/opt/lut.bin]", message='"cannot open [/opt/lut.bin]"', run="return 2;"),
    library("so-fork", "forks children that sleep", run="if (fork() == 0) { sleep(30); _exit(0); }", quick=True),
    library("so-fork-escape", "forks children with a session of their own", run="if (fork() == 0) { setsid(); sleep(30); _exit(0); }"),
    library("i-sleep-c-term-4.0", "SIGTERM while a library sleeps in C", (143,), run="sleep(1000);", timeout="60", signal=(signal.SIGTERM, 3.0)),
    library("i-sleep-c-kill-4.0", "SIGKILL while a library sleeps in C", (-9,), run="sleep(1000);", timeout="60", signal=(signal.SIGKILL, 3.0)),
    library("so-file-text", "a text called lib.so", (2,), "does not load", prepare=lambda folder: (folder / "lib.so").write_text("text") and None),
    library("so-file-fifo", "a FIFO called lib.so", (2,), prepare=lambda folder: __import__("os").mkfifo(folder / "lib.so")),
)  # fmt: skip

ATTACKS = (*PROGRAMS, *LIBRARIES) if sys.platform != "win32" else ()
