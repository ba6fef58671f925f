"""Running one attack in a folder of its own, within bounds, and judging what it came to."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import secrets
import signal
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree as Xml

from tests.attacks.model import Attack, Outcome

#: The name of the environment variable by which processes that were left behind are found.
MARK = "MXSPEC_ATTACK"
#: Nothing may take more addresses: a broken bound shall not take the machine with it.
_MOST_ADDRESSES = 12 << 30
#: How long processes that a command left have to go.
_GRACE = 1.5


def run_attack(attack: Attack, folder: Path) -> Outcome:
    """Run it; the folder is empty before."""
    for name, content in attack.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))
    if attack.prepare is not None:
        attack.prepare(folder)
    mark = secrets.token_hex(8)
    binaries = str(Path(sys.executable).parent)
    environment = os.environ | {MARK: mark, "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "100"}
    environment |= attack.environment
    command = ["sh", "-c", attack.shell] if attack.shell else [sys.executable, "-P", "-m", "mxspec_conformance", *attack.arguments]
    started = time.monotonic()
    with (folder.parent / f"{folder.name}.out").open("w+b") as out, (folder.parent / f"{folder.name}.err").open("w+b") as err:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True,
            preexec_fn=_limit,
        )  # fmt: skip
        memory, hung = _wait(process, attack, mark, started)
        seconds = time.monotonic() - started
        for file in (out, err):
            file.seek(0)
        printed = out.read(1 << 24), err.read(1 << 24)
    leaked = _end_leaked(mark)
    return Outcome(code=process.returncode, out=printed[0], err=printed[1], seconds=seconds, memory=memory, leaked=leaked, hung=hung)


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_ADDRESSES, _MOST_ADDRESSES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # a shell starts what it puts behind without SIGINT
        signal.signal(number, signal.SIG_DFL)


def _wait(process: subprocess.Popen[bytes], attack: Attack, mark: str, started: float) -> tuple[float, bool]:
    """Wait with bounds; the most memory that it had, and whether it had to be ended."""
    most, sent, last = 0.0, False, 0.0
    while process.poll() is None:
        now = time.monotonic() - started
        if attack.signal is not None and not sent and now >= attack.signal[1]:
            sent = True
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(attack.signal[0])
        if now > attack.seconds * 1.5 + 5:
            _end_leaked(mark, 0)
            process.kill()
            process.wait(10)
            return most, True
        if now - last > 0.2:
            last = now
            most = max(most, _memory(process.pid))
        time.sleep(0.01)
    return most, False


def _memory(pid: int) -> float:
    """The most memory that a process had, MB. The target's own processes have no promise."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        status = Path(f"/proc/{pid}/status").read_text("utf-8", "replace")
        return max(int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmHWM"))
    return 0.0


def _marked(mark: str) -> dict[int, str]:
    """Processes with the mark in their environment; without the one that asks, and without zombies."""
    wanted, found = f"{MARK}={mark}".encode(), {}
    for path in Path("/proc").iterdir():
        if not path.name.isdigit() or int(path.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            if wanted in (path / "environ").read_bytes().split(b"\0"):
                words = (path / "cmdline").read_bytes().split(b"\0")
                found[int(path.name)] = " ".join(Path(w.decode("utf-8", "replace")).name for w in words if w)[:100]
    return found


def _end_leaked(mark: str, grace: float = _GRACE) -> tuple[str, ...]:
    """What is left some time after the command, ended."""
    deadline = time.monotonic() + grace
    while (left := _marked(mark)) and time.monotonic() < deadline:
        time.sleep(0.05)
    for pid in left:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    return tuple(left.values())


def judge(attack: Attack, folder: Path, outcome: Outcome) -> list[str]:
    """What is wrong; empty where the attack failed, as it should."""
    wrong = []
    if outcome.hung:
        return [f"did not end within {attack.seconds * 1.5 + 5:g} s"]
    if outcome.code not in attack.codes:
        wrong.append(f"exit code {outcome.code}, not {' or '.join(map(str, attack.codes))}")
    if "Traceback (most recent call last)" in outcome.text or "Exception ignored" in outcome.text:
        wrong.append("traceback")
    if b"\x1b" in outcome.out + outcome.err or b"\x9b" in outcome.out.replace(b"\xc2\x9b", b"\x1b"):
        wrong.append("an escape sequence reaches the terminal")
    if len(outcome.out) + len(outcome.err) > 200_000:
        wrong.append(f"{len(outcome.out) + len(outcome.err)} bytes printed")
    if outcome.seconds > attack.seconds:
        wrong.append(f"took {outcome.seconds:.0f} s, more than {attack.seconds:g}")
    if outcome.memory > attack.memory:
        wrong.append(f"took {outcome.memory:.0f} MB, more than {attack.memory:g}")
    if outcome.leaked:
        wrong.append(f"processes left: {', '.join(outcome.leaked)[:120]}")
    wrong += _spoiled(folder, set(attack.files))
    told = " ".join((outcome.text + _result(folder)).split())
    wrong += [f"{word!r} is not told" for word in attack.words if word not in told]
    if attack.check is not None and (found := attack.check(folder, outcome)):
        wrong.append(found)
    return wrong


def _result(folder: Path) -> str:
    path = folder / "r.json"
    if not path.is_file() or path.stat().st_size > 1 << 24:
        return ""
    with contextlib.suppress(ValueError, RecursionError):
        return json.dumps(json.loads(path.read_bytes()), ensure_ascii=False)
    return ""


def _spoiled(folder: Path, given: set[str]) -> list[str]:
    """Reports that do not parse, are large, or hold what was to be escaped; temporary files that were left."""
    wrong = []
    for name, parse in (("r.json", lambda b: json.loads(b)), ("r.xml", Xml.fromstring)):
        path = folder / name
        if name not in given and path.is_file() and path.stat().st_size < 1 << 24:
            try:
                parse(path.read_bytes())
            except (ValueError, Xml.ParseError) as error:
                wrong.append(f"{name} does not parse ({type(error).__name__})")
    for name in ("r.html", "r.md"):
        path = folder / name
        if path.is_file() and path.stat().st_size < 1 << 24:
            text = path.read_bytes()
            if b"<script>alert" in text or b"\x1b" in text:
                wrong.append(f"{name} holds a script or a control character of the target's")
    for name in ("r.json", "r.xml", "r.html", "r.md"):
        if name not in given and (folder / name).is_file() and (folder / name).stat().st_size > 3 << 20:
            wrong.append(f"{name} has {(folder / name).stat().st_size >> 20} MB")
    left = [p.name for p in folder.rglob(".*") if p.name.endswith(".tmp") or "-" in p.name]
    return wrong + ([f"temporary files left: {', '.join(left)}"] if left else [])
