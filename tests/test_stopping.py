"""Commands that are stopped: while they are still being imported, and while their workers are at work."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from mxspec_lab.pools import forked_pool

from tests.support import HEED_SIGINT

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has neither these signals nor fork")

#: Sends SIGINT when a module is first looked for.
INTERRUPT_AT = """
import os, sys
class Hook:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Hook())
sys.argv = ["mxspec", "formats"]
from mxspec_conformance.entry import main
main()
"""


@pytest.mark.parametrize("name", ["click", "numpy", "rich.segment", "mxspec.profiles", "mxspec_conformance.cli.catalogue"])
def test_ctrl_c_while_importing(name: str) -> None:
    code = HEED_SIGINT + INTERRUPT_AT.format(name=name)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "mxspec: stopped\n")


def test_an_ignored_signal_stays_ignored() -> None:
    code = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n" + INTERRUPT_AT.format(name="numpy")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert "mxfp4" in done.stdout


def list_group(group: int) -> list[int]:
    """The processes of a group that have not ended."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text("utf-8", "replace").rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group and fields[0] not in "ZX":
            found.append(int(stat.parent.name))
    return found


@contextmanager
def mutants() -> Iterator[subprocess.Popen[str]]:
    """`python -m mxspec_lab mutants` with its workers at work."""
    code = (
        HEED_SIGINT
        + "import os, sys; os.cpu_count = lambda: 2; sys.argv = ['mxspec_lab', 'mutants']; from mxspec_lab.__main__ import main; main()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        late = time.monotonic() + 60
        while len(list_group(process.pid)) < 3 and time.monotonic() < late:
            time.sleep(0.1)
        time.sleep(1)
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are listed in /proc")
@pytest.mark.parametrize(
    ("number", "whole"), [(signal.SIGINT, False), (signal.SIGINT, True), (signal.SIGTERM, False), (signal.SIGKILL, False)]
)
def test_mutants_end_with_their_workers(number: signal.Signals, whole: bool) -> None:
    with mutants() as process:
        assert len(list_group(process.pid)) == 3
        (os.killpg if whole else os.kill)(process.pid, number)
        process.wait(timeout=20)
        late = time.monotonic() + 10
        while list_group(process.pid) and time.monotonic() < late:
            time.sleep(0.1)
        assert list_group(process.pid) == []
        assert process.stderr is not None
        if number != signal.SIGKILL:
            assert (process.returncode, process.stderr.read()) == (128 + number, "mxspec: stopped\n")


def test_a_pool_is_not_waited_for_after_an_exception() -> None:
    started = time.monotonic()

    def stop() -> None:
        with forked_pool(2) as pool:
            pids.append(pool.submit(os.getpid).result())
            pool.submit(time.sleep, 100)
            pool.submit(time.sleep, 100)
            raise KeyboardInterrupt

    pids: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        stop()
    assert time.monotonic() - started < 30
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)
    with forked_pool(1, pids.append, (7,)) as pool:
        assert pool.submit(max, 3, 4).result() == 4
