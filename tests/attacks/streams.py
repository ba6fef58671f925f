"""Standard streams, full disks, modes, signals in the middle of work, and resuming."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from tests.attacks.files import FUZZ, PROVE, only, row
from tests.attacks.model import Attack, Check, Outcome
from tests.attacks.python_targets import GOOD, HEAD

TARGET = {"t.py": HEAD + GOOD}
CHECK = "mxspec check t.py --quick"
#: A limit on the size of files, as a full disk is one on their sum.
FULL = "ulimit -f 1; "


def shell(name: str, kind: str, what: str, line: str, codes: tuple[int, ...] = (0,), *words: str, **more: object) -> Attack:
    given = {"files": TARGET, "seconds": 60.0} | more
    return Attack(id=name, kind=kind, what=what, shell=line, codes=codes, words=words, **given)  # type: ignore[arg-type]


def written(*names: str) -> Check:
    def check(folder: Path, _: Outcome) -> str:
        absent = [n for n in names if not (folder / n).is_file() or not (folder / n).stat().st_size]
        return f"not written: {', '.join(absent)}" if absent else ""

    return check


S, D, P, INT, C = "streams", "full disk", "permissions", "interruption", "resume"
STREAMS = (
    shell("s-head-json", S, "check | true, with --json: is the result written?", f"{CHECK} --json r.json --html r.html | true", check=written("r.json", "r.html"), quick=True),
    shell("s-head", S, "check | head -1", f"{CHECK} | head -1"),
    shell("s-profiles-head", S, "profiles | head -1", "mxspec profiles | head -1"),
    shell("s-json-head", S, "check --json - | head -c 10", f"{CHECK} --json - | head -c 10"),
    shell("s-closed-out", S, "stdout closed", f"{CHECK} --json r.json >&-", check=written("r.json"), quick=True),
    shell("s-closed-err", S, "stderr closed", f"{CHECK} 2>&-"),
    shell("s-closed-in", S, "stdin closed", f"{CHECK} <&-"),
    shell("s-closed-all", S, "all three closed", f"{CHECK} --json r.json <&- >&- 2>&-", check=written("r.json")),
    shell("s-closed-cmd", S, "all three closed, of an error", "mxspec check absent.py <&- >&- 2>&-", (2,)),
    shell("s-devfull", S, "stdout is /dev/full", f"{CHECK} >/dev/full", (2,), "No space left"),
    shell("s-devfull-rc", S, "stdout is /dev/full: is the file written?", f"{CHECK} --json r.json >/dev/full", (2,), "No space left", check=written("r.json")),
    shell("s-devfull-list", S, "profiles to /dev/full", "mxspec profiles >/dev/full", (2,), "No space left"),
    *(shell(f"s-columns-{n}", S, f"COLUMNS={n}", CHECK, environment={"COLUMNS": n}) for n in ("1", "0", "abc", "99999999999", "-5")),
    shell("s-ascii", S, "an ASCII terminal", CHECK, environment={"PYTHONIOENCODING": "ascii"}),
    shell("s-lang-c", S, "LC_ALL=C without UTF-8 mode", CHECK, environment={"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}),
    row("s-seed-env", S, "MXSPEC_SEED=abc for fuzz", ("fuzz", "t.py", "--batches", "1"), (2,), "MXSPEC_SEED", environment={"MXSPEC_SEED": "abc"}),
    *(
        row(f"s-time-{command[0]}-{option}-{value}".replace("--", ""), S, f"{command[0]} {option} {value}", (*command, option, value), (2,), option, quick=(option, value) == ("--timeout", "nan"))
        for command, option in ((("check", "t.py"), "--timeout"), (PROVE, "--minutes"), (PROVE, "--timeout"), (FUZZ, "--minutes"), (("identify", "t.py"), "--timeout"), (("diff", "t.py", "t.py"), "--timeout"), (("smoke", "t.py"), "--timeout"))
        for value in ("nan", "inf", "1e300", "-1", "0")
    ),
)  # fmt: skip
DISK = (
    shell("d-check-json-true", D, "a full disk: the message, and what was written", f"{FULL}{CHECK} --html ok.html --json r.json", (2,), "nothing was changed", check=only("t.py"), quick=True),
    shell("d-waivers", D, "the same with --write-waivers", f"{FULL}{CHECK} --html ok.html --write-waivers w.toml", (2,), "nothing was changed", check=only("t.py")),
    shell("d-export", D, "vectors export", f"{FULL}mxspec vectors export x/y --kind npz --format mxint8", (2,), "nothing was changed", check=only("t.py")),
    shell("d-report", D, "report", f"{CHECK} --json r.json >/dev/null; {FULL}mxspec report r.json -o x/y", (2,), "nothing was changed", check=only("t.py", "r.json")),
    shell("d-bundle", D, "bundle", f"{FULL}mxspec bundle x/b.jsonl --like t.py", (2,), "nothing was changed", check=only("t.py")),
    shell("d-build", D, "vectors build", f"{FULL}mxspec vectors build --out x/v1", (2,), "nothing was changed", check=only("t.py"), seconds=200),
    shell("d-prove-state", D, "prove whose state lies on a full disk", f"{FULL}mxspec {' '.join(PROVE)} --state x/p.state", (2,), "File too large", check=only("t.py", "x", "x/p.state")),
    shell("d-fuzz-state", D, "fuzz whose disk fills while it runs", f"{FULL}mxspec {' '.join(FUZZ)} --state f.state", (2,), "what was finished before is kept", check=only("t.py", "f.state")),
    shell("d-prove-out", D, "prove -o on a full disk", f"{FULL}mxspec {' '.join(PROVE)} -o x/p.json", (2,), check=only("t.py", "x", "x/p.state")),
    shell("d-sweep", D, "sweep", f"bash -c 'set -o pipefail; ({FULL}python -P -m mxspec_lab sweep --function encode/e2m1/rne/saturate --chunks 0 --jobs 1 --out sw --witness array-model) 2>&1 | cat'", (2,), check=only("t.py"), seconds=90),
    shell("i-mode", P, "umask 077", f"umask 077; {CHECK} --json r.json", check=lambda f, _: "" if (f / "r.json").stat().st_mode & 0o777 == 0o600 else "the mode is not 600", quick=True),
    shell("i-mode-old", P, "an old file's mode", f"touch r.json; chmod 640 r.json; {CHECK} --json r.json", check=lambda f, _: "" if (f / "r.json").stat().st_mode & 0o777 == 0o640 else "the mode is not 640"),
    shell("i-devout", P, "--json /dev/null", f"{CHECK} --json /dev/null", check=lambda *_: "" if Path("/dev/null").is_char_device() else "/dev/null was replaced"),
    shell("i-devstdout", P, "--json /dev/stdout", f"{CHECK} --json /dev/stdout | grep -q mxspec-result"),
    shell("p-user-cwd", P, "check in a folder that was deleted", "mkdir gone; cd gone; rmdir ../gone; mxspec check ../t.py", (2,)),
    shell("i-link", P, "an output that is a link", f"echo old > real; ln -s real r.json; {CHECK} --json r.json; test -L r.json && grep -q mxspec-result real"),
)  # fmt: skip

#: 100 MB of NVFP4 as ModelOpt stores it.
MAKE = "python -c \"import numpy as np, mxspec; from mxspec import containers as c; x = np.zeros((8192, 8192), np.float32) + 1; t = mxspec.quantize(x, 'mxfp4'); c.write('in.gguf', {'blk.0.ffn_up.weight': t}, 'gguf')\" && "


def resumed(name: str, what: str, command: str, number: int, after: float, *, quick: bool = False) -> Attack:
    """A campaign that is ended by a signal and run again gives the result of one that was not; so its state was not lost."""
    compare = "import json, sys; a, b = ({k: v for k, v in json.load(open(f)).items() if k not in ('environment', 'seconds')} for f in sys.argv[1:]); sys.exit(a != b)"
    word = signal.Signals(number).name.removeprefix("SIG")
    line = (
        f"mxspec {command} --state a.state --json whole.json >/dev/null; "
        f"timeout -s {word} {after} mxspec {command} --state b.state --json again.json >/dev/null; "
        f"python -c \"import json; raise SystemExit(json.load(open('again.json'))['details']['stopped'] != '')\" 2>/dev/null "
        f"|| mxspec {command} --state b.state --json again.json >/dev/null; "
        f'python -c "{compare}" whole.json again.json'
    )
    return shell(name, C, what, line, seconds=120, quick=quick)


SHARDS = "prove t.py --format mxfp4 --dtype bfloat16 --shard 3/16 --profile mx-floor"
BUGGY = "fuzz t.py --batches 6 --seed 1"
INTERRUPTED = (
    *(resumed(f"c-prove-{s.lower()}-{t}", f"prove, 2 jobs: SIG{s} after {t} s, then the same command", f"{SHARDS} --jobs 2", getattr(signal, f"SIG{s}"), t) for s in ("INT", "TERM", "KILL") for t in (2.0, 4.0)),
    *(resumed(f"c-prove1-{s.lower()}-3.0", f"prove, 1 job: SIG{s} after 3 s", f"{SHARDS} --jobs 1", getattr(signal, f"SIG{s}"), 3.0) for s in ("INT", "KILL")),
    *(resumed(f"c-fuzz-{s.lower()}-2.0", f"fuzz, 2 jobs: SIG{s} after 2 s", f"{BUGGY} --jobs 2", getattr(signal, f"SIG{s}"), 2.0) for s in ("TERM", "KILL")),
    shell("i-convert-term-1.5", INT, "convert: SIGTERM in the middle", MAKE + "timeout -s TERM 1.2 mxspec convert in.gguf o.safetensors --to gpt-oss; ls -A", (0,), check=lambda f, _: "" if {p.name for p in f.iterdir()} <= {"t.py", "in.gguf", "o.safetensors"} else "files are left"),
    *(shell(f"i-build-{s.lower()}", INT, f"vectors build: SIG{s}", f"timeout -s {s} 6 mxspec vectors build --out v1; true", check=only("t.py")) for s in ("INT", "TERM")),
    *(row(f"i-check-{s.lower()}-{t}", INT, f"check: SIG{s} after {t} s", ("check", "t.py", "--json", "r.json"), (0, -n, 128 + n), signal=(n, t), quick=(s, t) == ("TERM", 2.0)) for s, n in (("INT", 2), ("TERM", 15), ("KILL", 9), ("HUP", 1)) for t in (2.0, 3.0, 4.0)),
)  # fmt: skip

PTY = 'python -c "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)" {} > out; grep -q owned out; found=$?; if grep -q "$(printf \'\\033]0;owned\')" out; then echo sequence passed; exit 7; fi; echo found $found'
TERMINAL = (
    shell("tty-msg", "terminal", "a message with OSC (on a pty)", PTY.format(CHECK), files={"t.py": HEAD + "def quantize(x, fmt):\n    raise ValueError('\\x1b]0;owned\\x07')\n"}),
    shell("tty-name", "terminal", "NAME with OSC (on a pty)", PTY.format(CHECK), files={"t.py": HEAD + "NAME = '\\x1b]0;owned\\x07'\n" + GOOD}, quick=True),
    shell("tty-import", "terminal", "an import error with OSC (on a pty)", PTY.format(CHECK), files={"t.py": "raise ValueError('\\x1b]0;owned\\x07')\n"}),
    shell("tty-file", "terminal", "a file's name with OSC, while it is judged (on a pty)", PTY.format("mxspec check \"$(printf 'a\\033]0;owned.py')\" --quick"), files={"a\x1b]0;owned.py": HEAD + GOOD}),
    shell("tty-stderr", "terminal", "a program's stderr with OSC (on a pty)", PTY.format("mxspec check \"cmd:printf '\\033]0;owned' >&2\" --quick"), (0, 2)),
    shell("tty-convert-name", "terminal", "convert of a tensor's name with OSC (on a pty)", PTY.format("mxspec convert x.safetensors o.gguf --to gguf"), files={"x.safetensors": b'\x3c\x00\x00\x00\x00\x00\x00\x00{"\\u001b]0;owned":{"dtype":"X","shape":[],"data_offsets":[0,0]}}'.ljust(8 + 0x3C)}),
    shell("tty-lint-name", "terminal", "lint of a tensor's name with OSC (on a pty)", PTY.format("mxspec lint x.safetensors"), files={"x.safetensors": b'\x3c\x00\x00\x00\x00\x00\x00\x00{"\\u001b]0;owned":{"dtype":"X","shape":[],"data_offsets":[0,0]}}'.ljust(8 + 0x3C)}),
)  # fmt: skip

ATTACKS = (*STREAMS, *DISK, *INTERRUPTED, *TERMINAL) if sys.platform != "win32" else ()
