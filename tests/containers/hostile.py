"""Mutated checkpoints: `python -m tests.containers.hostile FOLDER COUNT` lints and opens COUNT of them, made from FOLDER's.

Files of FOLDER whose names begin with `big` are looked at as they are.

The process may allocate 256 MB more than it has after import (RLIMIT_AS), and no file may take ten seconds of CPU time (SIGPROF):
how long that is does not depend on what else the machine does.
It prints counts as JSON; anything but a finding or ContainerError is listed under `crashes`.
"""

from __future__ import annotations

import json
import random
import resource
import signal
import struct
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from mxspec.affine.checkpoints import convert_affine, open_affine
from mxspec.containers import ContainerError, convert, open_checkpoint
from mxspec_conformance.lint import lint

SEED = 20261121
LIMIT = 256 << 20
SECONDS = 10
_NUMBERS = (0, 1, 7, 255, 1 << 16, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 40, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)
_TEXTS = ("[" * 2000, '{"a":' * 500, "1e999", "-1", "null", "9" * 5000, '"\\ud800"', "[9223372036854775808]", "{}", "[]", '""', "true")


def header_length(data: bytes) -> int:
    """Bytes that are worth mutating."""
    if data[:4] == b"GGUF":
        return min(len(data), 1200)
    return min(len(data), 8 + int.from_bytes(data[:8], "little"))


def truncate(data: bytes, draw: random.Random) -> bytes:
    """An end that comes too early."""
    return data[: draw.randrange(len(data))]


def flip(data: bytes, draw: random.Random) -> bytes:
    """Bytes of the header replaced."""
    found = bytearray(data)
    for _ in range(draw.randint(1, 8)):
        found[draw.randrange(header_length(data))] = draw.randrange(256)
    return bytes(found)


def put_number(data: bytes, draw: random.Random) -> bytes:
    """A telling number somewhere in the header, four or eight bytes wide."""
    found, width = bytearray(data), draw.choice((4, 8))
    place = draw.randrange(max(header_length(data) - width, 1)) if draw.random() < 0.7 else draw.choice((0, 4, 8, 16))
    found[place : place + width] = struct.pack("<Q", draw.choice(_NUMBERS))[:width]
    return bytes(found)


def put_text(data: bytes, draw: random.Random) -> bytes:
    """Something else in the place of a number of the JSON header, whose length is made to fit."""
    if data[:4] == b"GGUF":
        return put_number(data, draw)
    length = int.from_bytes(data[:8], "little")
    text = data[8 : 8 + length]
    digits = [i for i, c in enumerate(text) if 48 <= c <= 57]
    place = draw.choice(digits)
    new = draw.choice((*_TEXTS, *map(str, _NUMBERS))).encode()
    text = text[:place] + new + text[place + draw.randint(0, 2) :]
    return len(text).to_bytes(8, "little") + text + data[8 + length :]


def repeat(data: bytes, draw: random.Random) -> bytes:
    """A stretch of the header twice."""
    end = header_length(data)
    first = draw.randrange(end)
    last = min(end, first + draw.randint(1, 200))
    return data[:last] + data[first:last] + data[last:]


def cut_out(data: bytes, draw: random.Random) -> bytes:
    """A stretch of the header left out."""
    first = draw.randrange(header_length(data))
    return data[:first] + data[first + draw.randint(1, 64) :]


def swap(data: bytes, draw: random.Random) -> bytes:
    """The beginning of nothing known, or of the other container."""
    start = draw.choice((b"GGUF", b"FUGG", b"\0" * 8, b"\xff" * 8, struct.pack("<Q", 2) + b"{}", b"GGUF\x03\0\0\0" + b"\xff" * 16))
    return start + data[len(start) :]


MUTATIONS = (truncate, flip, flip, put_number, put_number, put_text, put_text, repeat, cut_out, swap)


def on_alarm(*_: Any) -> None:
    """A file takes too long."""
    raise TimeoutError(f"more than {SECONDS} s of CPU time")


def main() -> int:
    """Mutate, look, count."""
    folder, count = Path(sys.argv[1]), int(sys.argv[2])
    files = [p for p in sorted(folder.iterdir()) if p.suffix in (".safetensors", ".gguf")]
    sources = [(p.suffix, p.read_bytes()) for p in files if not p.name.startswith("big")]
    scratch = folder / "scratch"
    scratch.mkdir()
    draw = random.Random(SEED)
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
    limit = pages * resource.getpagesize() + LIMIT
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    signal.signal(signal.SIGPROF, on_alarm)
    crashes, damaged, slowest = [], 0, 0.0
    big = [p for p in files if p.name.startswith("big")]
    for number in range(count + len(big)):
        if number < count:
            suffix, data = sources[number % len(sources)]
            mutation = draw.choice(MUTATIONS)
            path, what = scratch / f"x{suffix}", mutation.__name__
            path.write_bytes(mutation(data, draw))
        else:
            path = big[number - count]
            what = path.name
        began = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            damaged += bool(lint(path).findings)
            look_inside(path, scratch, ("torch-dtypes", "mlx", "comfy-kitchen", "fp8-ue8m0")[number % 4])
        except BaseException:
            crashes.append(f"{number} {what}: {traceback.format_exc()[-600:]}")
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        slowest = max(slowest, time.process_time() - began)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"files": count, "damaged": damaged, "crashes": crashes, "slowest_s": slowest, "peak_rss_kb": peak}))
    return 0


def look_inside(path: Path, scratch: Path, convention: str) -> None:
    """Read every tensor and convert the file: ContainerError is the only error."""
    out = scratch / "out.safetensors"
    try:
        checkpoint = open_checkpoint(path)
        for base in checkpoint.blocks:
            checkpoint.read(base, 0 if len(checkpoint.blocks[base].shape) == 3 else None)
        affine = open_affine(checkpoint)
        for base in affine.groups:
            affine.read(base)
        if affine.groups:
            convert_affine(affine, out, "gptq-v2", force=True)
        convert(path, out, convention, force=True)
    except ContainerError:
        pass
    finally:
        out.unlink(missing_ok=True)


if __name__ == "__main__":
    sys.exit(main())
