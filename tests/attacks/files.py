"""Files that are hostile or none: results, waivers, vectors, reports, states, sweeps, containers; and outputs over inputs."""

from __future__ import annotations

import json
import os
import shutil
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from mxspec_vectors.files import vectors_root

from tests.attacks.model import Attack, Check, Outcome
from tests.attacks.python_targets import GOOD, HEAD

DEEP = "[" * 100_000
BIG = "9" * 5000
EVIL = "\x1b]0;owned\x07<script>alert(1)</script>\x00[/red] \u202e::error::x"
PROVE = ("prove", "t.py", "--format", "mxfp4", "--dtype", "bfloat16", "--shard", "3/32", "--jobs", "1", "--profile", "mx-floor")
FUZZ = ("fuzz", "t.py", "--batches", "1", "--seed", "1", "--jobs", "1")
Prepare = Callable[[Path], None]


def row(name: str, kind: str, what: str, arguments: tuple[str, ...], codes: tuple[int, ...] = (2,), *words: str, **more: Any) -> Attack:
    files = {"t.py": HEAD + GOOD} | dict(more.pop("files", {}))
    given = {"seconds": 30.0} | more
    return Attack(id=name, kind=kind, what=what, arguments=arguments, codes=codes, words=words, files=files, **given)


def fifo(name: str) -> Prepare:
    return lambda folder: os.mkfifo(folder / name)


def zeros(name: str) -> Prepare:
    return lambda folder: (folder / name).symlink_to("/dev/zero")


def folder_named(name: str) -> Prepare:
    return lambda folder: (folder / name).mkdir(parents=True)


def unchanged(name: str, content: str) -> Check:
    return lambda folder, _: "" if (folder / name).read_text("utf-8") == content else f"{name} was changed"


def only(*names: str) -> Check:
    def check(folder: Path, _: Outcome) -> str:
        left = {p.relative_to(folder).as_posix() for p in folder.rglob("*")} - set(names)
        return f"left: {', '.join(sorted(left))[:100]}" if left else ""

    return check


DESCRIPTION = {
    "mxspec": 1, "name": "rec", "version": "1", "capabilities": {"functions": {"decode": []}, "elements": ["e2m1"]}
}  # fmt: skip
RECORD = json.dumps(DESCRIPTION) + "\n"
RF, W, V, RP, ST = "results file", "waivers", "vectors", "report input", "states"

RESULTS = (
    row("rf-deep", RF, "a line of 10^5 brackets", ("check", "r.jsonl"), (2,), "nested too deeply", files={"r.jsonl": RECORD + DEEP + "\n"}, quick=True),
    row("rf-deep-first", RF, "the whole file is 10^6 brackets", ("check", "r.jsonl"), files={"r.jsonl": DEEP * 10}),
    row("rf-bigint", RF, "an integer of 5000 digits", ("check", "r.jsonl"), (2,), "line 2", files={"r.jsonl": RECORD + '{"id": ' + BIG + "}\n"}),
    row("rf-evil-name", RF, "a description with ANSI and markup", ("check", "r.jsonl", "--json", "o.json"), (1,), files={"r.jsonl": json.dumps(DESCRIPTION | {"name": EVIL}) + "\n"}),
    row("rf-400mb-line", RF, "one line of 400 MB", ("check", "r.jsonl"), (2,), "has more than", prepare=lambda f: _write_long(f / "r.jsonl"), memory=1500),
    row("rf-devzero", RF, "a link to /dev/zero", ("check", "r.jsonl"), (2,), "a device, not a regular file", prepare=zeros("r.jsonl")),
    row("rf-fifo", RF, "a FIFO without a writer", ("check", "r.jsonl"), (2,), "a FIFO, not a regular file", prepare=fifo("r.jsonl"), quick=True),
    row("rf-dir", RF, "a folder", ("check", "r.jsonl"), (2,), "a folder, not a regular file", prepare=folder_named("r.jsonl")),
    row("rf-loop-link", RF, "a link to itself", ("check", "r.jsonl"), prepare=lambda f: (f / "r.jsonl").symlink_to("r.jsonl")),
    row("rf-nul-name", RF, "a binary file", ("check", "r.jsonl"), files={"r.jsonl": bytes(range(256)) * 100}),
    row("rf-ask-self", RF, "--missing-calls names the results file itself", ("check", "r.jsonl", "--missing-calls", "r.jsonl"), (2,), "what this command reads", files={"r.jsonl": RECORD}, check=unchanged("r.jsonl", RECORD), quick=True),
    row("rf-verdicts", RF, "what --json wrote, as a target, on one line", ("check", "r.jsonl"), (2,), "holds verdicts", files={"r.jsonl": '{"schema": "mxspec-result/1", "kind": "check"}\n'}),
    row("rf-verdicts-indented", RF, "what --json wrote, as a target", ("check", "r.json"), (2,), "holds verdicts", files={"r.json": '{\n "schema": "mxspec-result/1"\n}\n'}),
)  # fmt: skip


def _write_long(path: Path) -> None:
    with path.open("wb") as file:
        file.write(RECORD.encode())
        for _ in range(400):
            file.write(b"x" * 1_000_000)
        file.write(b"\n")


CHECK_W = ("check", "t.py", "--quick", "--waivers", "w.toml")
WAIVERS = (
    row("w-deep", W, "arrays nested 10^5 deep", CHECK_W, (2,), "nested too deeply", files={"w.toml": "a = " + DEEP}, quick=True),
    row("w-deep-lines", W, "the same over many lines", CHECK_W, (2,), "nested too deeply", files={"w.toml": "a = " + "[\n" * 100_000}),
    row("w-deep-table", W, "inline tables nested 5000 deep", CHECK_W, (2,), "nested too deeply", files={"w.toml": "a = " + "{a = " * 5000}),
    row("w-deep-keys", W, "a dotted key of 50,000 parts", CHECK_W, (2,), "nested too deeply", files={"w.toml": ".".join(["a"] * 50_000) + " = 1\n"}, memory=400),
    row("w-deep-quoted", W, "the same with quoted parts", CHECK_W, (2,), "nested too deeply", files={"w.toml": ".".join(['"a"'] * 50_000) + " = 1\n"}, memory=400),
    row("w-deep-header", W, "the same as the name of a table", CHECK_W, (2,), "nested too deeply", files={"w.toml": "[" + ".".join(["a"] * 50_000) + "]\n"}, memory=400),
    row("w-failing-big", W, "failing of 5000 digits", CHECK_W, (2,), "w.toml is not TOML", files={"w.toml": f"[[waiver]]\nfailing = {BIG}\n"}),
    row("w-fifo", W, "a FIFO", CHECK_W, (2,), "a FIFO, not a regular file", prepare=fifo("w.toml")),
    row("w-devzero", W, "a link to /dev/zero", CHECK_W, (2,), "a device", prepare=zeros("w.toml")),
    row("w-huge", W, "100 MB", CHECK_W, (2,), "at most", prepare=lambda f: (f / "w.toml").write_bytes(b"#" * 100_000_000) and None),
    row("w-dots", W, "a reason and a comment full of dots (an ordinary file)", CHECK_W, (1,), files={"w.toml": f'# {"." * 500}\n[[waiver]]\nid = "quantize/none/*"\nreason = """{"." * 500}\n"quoted" [[["""\nlink = "x{"." * 200}"\nexpires = 2999-01-01\n'}),
    row("w-absent", W, "no such file", CHECK_W, (2,), "does not exist"),
)  # fmt: skip


def copied_vectors(folder: Path, change: Callable[[Path], None]) -> None:
    shutil.copytree(vectors_root(), folder / "v1")
    change(folder / "v1")


def vectors(name: str, what: str, change: Callable[[Path], None], codes: tuple[int, ...] = (1, 2), *words: str, **more: Any) -> Attack:
    arguments = more.pop("arguments", ("vectors", "verify", "v1"))
    return row(name, V, what, arguments, codes, *words, prepare=partial(copied_vectors, change=change), **({"seconds": 120.0} | more))


def _forge(root: Path) -> None:
    """A file of brackets with fitting digests."""
    import hashlib

    from mxspec_vectors.files import total_digest

    (root / "encode" / "e2m1.json").write_text(DEEP)
    index = json.loads((root / "index.json").read_bytes())
    index["files"]["encode/e2m1.json"]["sha256"] = hashlib.sha256(DEEP.encode()).hexdigest()
    index["digest"] = total_digest(index["files"])
    (root / "index.json").write_text(json.dumps(index))


def _replace_by_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


VECTORS = (
    vectors("v-index-deep", "index.json is 10^5 brackets", lambda r: (r / "index.json").write_text(DEEP) and None, (1, 2), "nested too deeply", quick=True),
    vectors("v-index-bigint", "an integer of 5000 digits in the index", lambda r: (r / "index.json").write_text('{"cases": ' + BIG + "}") and None, (1, 2), "is not JSON"),
    vectors("v-index-fifo", "index.json is a FIFO", lambda r: _replace_by_fifo(r / "index.json"), (1, 2), "a FIFO"),
    vectors("v-forged-deep", "a file of 10^5 brackets with fitting digests", _forge, (1, 2), "nested too deeply"),
    vectors("v-fifo", "a FIFO in place of a file", lambda r: _replace_by_fifo(r / "encode" / "e2m1.json"), (1, 2), "a FIFO"),
    vectors("v-build-over-jsonname", "vectors build --out over a folder that also holds a user's file with a name like a vector's", lambda r: (r / "encode" / "mine.json").write_text("mine") and None, (2,), "mine.json", arguments=("vectors", "build", "--out", "v1"), check=lambda f, _: "" if (f / "v1" / "encode" / "mine.json").is_file() else "mine.json is lost", quick=True),
)  # fmt: skip


def result(**change: Any) -> dict[str, Any]:
    requirement = {
        "id": "decode/e2m1/code", "operation": "decode", "format": "e2m1", "topic": "code", "text": "x", "level": "must",
        "verdict": "fail", "cases": 1, "failing": 1, "note": "", "labels": [], "first": None,
    }  # fmt: skip
    return {
        "schema": "mxspec-result/1", "kind": "check", "suite": {"version": "1", "vectors": "0" * 64},
        "target": {"name": "t", "version": "1", "transport": "python", "capabilities": {}}, "environment": {}, "seconds": 1.0,
        "exit_code": 1, "counts": {"fail": 1}, "formats": [], "requirements": [requirement],
    } | change  # fmt: skip


REPORT = ("report", "r.json", "-o", "out")


def _no_raw_tag(folder: Path, _: Outcome) -> str:
    raw = [p.name for p in folder.glob("out/*") if b"<script>alert" in p.read_bytes() and p.suffix != ".json"]
    return f"a raw tag in {', '.join(raw)}" if raw else ""


def _many(count: int) -> dict[str, Any]:
    one = result()["requirements"][0]
    return result(requirements=[one | {"id": f"decode/e2m1/code-{i}"} for i in range(count)])


FIRST = {"case": "c", "given": {"x": "not hex"}, "expected": {}, "returned": {}, "steps": [], "also": [], "snippet": ""}
REPORT_INPUTS = (
    row("rp-deep", RP, "10^5 brackets", REPORT, (2,), "nested too deeply", files={"r.json": DEEP}, quick=True),
    row("rp-bigint", RP, "an integer of 5000 digits", REPORT, (2,), files={"r.json": '{"schema": ' + BIG + "}"}),
    row("rp-fifo", RP, "a FIFO", REPORT, (2,), "a FIFO", prepare=fifo("r.json")),
    row("rp-devzero", RP, "a link to /dev/zero", REPORT, (2,), "a device", prepare=zeros("r.json")),
    row("rp-target", RP, "hostile name, version, libraries, device, environment keys", REPORT, (0, 2), files={"r.json": json.dumps(result(target={"name": EVIL, "version": EVIL, "transport": EVIL, "capabilities": {}, "libraries": {EVIL: EVIL}}, environment={EVIL: EVIL, "device": EVIL, "libraries": {EVIL: EVIL}}))}, check=_no_raw_tag),
    row("rp-bits", RP, "given x is no block", REPORT, (0, 2), files={"r.json": json.dumps(result(requirements=[result()["requirements"][0] | {"first": FIRST}]))}),
    row("rp-1e5", RP, "10^5 requirements", REPORT, (2,), "at most", files={"r.json": json.dumps(_many(100_000))}, seconds=40),
    row("rp-target-list", RP, "two results, the second's target is a list", REPORT, (2,), files={"r.json": json.dumps([result(), result(target=[])])}),
    row("rp-list-of-lists", RP, "a list of lists", REPORT, (2,), files={"r.json": "[[]]"}),
    row("rp-out-is-file", RP, "the output folder is the input", ("report", "r.json", "-o", "r.json"), (2,), files={"r.json": "{}"}),
)  # fmt: skip

OTHERS = (
    row("at-deep", "other files", "attest of 10^5 brackets", ("attest", "p.json"), (2,), files={"p.json": DEEP}),
    row("at-fifo", "other files", "attest of a FIFO", ("attest", "p.json"), (2,), prepare=fifo("p.json")),
    row("re-deep", "replay", "replay of 10^5 brackets", ("fuzz", "t.py", "--replay", "p.json"), (2,), files={"p.json": DEEP}),
    row("re-fifo", "replay", "replay of a FIFO", ("fuzz", "t.py", "--replay", "p.json"), (2,), "a FIFO", prepare=fifo("p.json")),
    row("re-absent", "replay", "no such file", ("fuzz", "t.py", "--replay", "p.json"), (2,)),
    row("bu-deep", "other files", "bundle --description of 10^5 brackets", ("bundle", "o.jsonl", "--description", "d.json"), (2,), "nested too deeply", files={"d.json": DEEP}),
    row("bu-fifo", "other files", "bundle --description of a FIFO", ("bundle", "o.jsonl", "--description", "d.json"), (2,), "a FIFO", prepare=fifo("d.json")),
    row("bu-self", "other files", "bundle OUT is the description itself", ("bundle", "d.json", "--description", "d.json"), (2,), "what this command reads", files={"d.json": json.dumps(DESCRIPTION)}, check=unchanged("d.json", json.dumps(DESCRIPTION))),
    row("npy-fifo", "other files", "explain --file of a FIFO", ("explain", "mxfp4", "--file", "x.npy"), (2,), prepare=fifo("x.npy")),
    row("npy-devzero", "other files", "explain --file of a link to /dev/zero", ("explain", "mxfp4", "--file", "x.npy"), (2,), prepare=zeros("x.npy")),
    row("npy-object", "other files", "explain --file of a pickle", ("explain", "mxfp4", "--file", "x.npy"), (2,), files={"x.npy": b"\x80\x04N."}),
)  # fmt: skip

STATE = ("--state", "s.state")
STATES = (
    row("st-deep", ST, "10^5 brackets", (*PROVE, *STATE), (2,), "is not the state file", files={"s.state": DEEP}, quick=True),
    row("st-deep-line", ST, "a result line of 10^5 brackets", (*PROVE, *STATE), (2,), files={"s.state": '{"schema":"mxspec-campaign/2","campaign":"x","identity":{}}\n' + DEEP + "\n"}),
    row("st-identity-list", ST, "identity is a list", (*PROVE, *STATE), (2,), "is not the state file", files={"s.state": '{"schema":"mxspec-campaign/2","campaign":"x","identity":[]}\n'}),
    row("st-fifo", ST, "a FIFO", (*PROVE, *STATE), (2,), "a FIFO", prepare=fifo("s.state")),
    row("st-dir", ST, "a folder", (*PROVE, *STATE), (2,), prepare=folder_named("s.state")),
    row("st-binary", ST, "binary", (*PROVE, *STATE), (2,), files={"s.state": bytes(range(256))}),
    row("st-fz-deep", ST, "fuzz: 10^5 brackets", (*FUZZ, *STATE), (2,), "is not the state file", files={"s.state": DEEP}),
    row("st-devzero", ST, "a link to /dev/zero", (*PROVE, *STATE), (2,), "a device", prepare=zeros("s.state")),
    *(
        Attack(id=f"st-{name}", kind=ST, what=what, files={"t.py": HEAD + GOOD, "line": line}, codes=(0,), seconds=60, shell=f"mxspec {' '.join(PROVE)} --state s.state >/dev/null && {{ {more}; }} >> s.state && mxspec {' '.join(PROVE)} --state s.state -o r.json && test -f r.json", quick=name == "result-odd")
        for name, what, line, more in (
            ("result-odd", "a known key whose result lacks its members", '{"key":"lanes/mxfp4/bfloat16","result":{},"sum":"0"}\n', "head -1 s.state > h; cat h line > s.state; true"),
            ("cut", "the last line is cut short", '{"key":"x","res', "cat line"),
            ("list", "lines that are lists", "[]\n" * 50, "cat line"),
        )
    ),
    *(
        Attack(id=f"st-fz-{name}", kind=ST, what=f"fuzz: {what}", files={"t.py": HEAD + GOOD, "line": line}, codes=(0,), seconds=60, shell=f"mxspec {' '.join(FUZZ)} --state s.state >/dev/null; head -1 s.state > h; cat h line > s.state; mxspec {' '.join(FUZZ)} --state s.state")
        for name, what, line in (
            ("otherkey", "a finished batch of a job that this campaign lacks", '{"key":"mxfp4/nope/0","result":{"blocks":1}}\n'),
            ("empty", "a finished batch without members", '{"key":"mxfp4/0","result":{}}\n'),
            ("sight", "sightings of odd content", '{"key":"mxfp4/0","result":{"sightings":[{"a":1}]},"sum":"0000000000000000"}\n'),
        )
    ),
    Attack(id="st-1e6", kind=ST, what="10^6 lines of other keys", files={"t.py": HEAD + GOOD}, codes=(2,), words=("that this command did not write",), seconds=60, shell=f"mxspec {' '.join(PROVE)} --state s.state >/dev/null; python -c \"print('{{\\\"key\\\":\\\"x\\\",\\\"result\\\":{{}}}}\\n' * 1000000)\" >> s.state; mxspec {' '.join(PROVE)} --state s.state"),
)  # fmt: skip


def _sweep_fifo(folder: Path) -> None:
    (folder / "sw/encode/e2m1/rne").mkdir(parents=True)
    os.mkfifo(folder / "sw/encode/e2m1/rne/saturate.json")


SW = "python -P -m mxspec_lab sweep --function encode/e2m1/rne/saturate --chunks 0 --jobs 1 --out sw --witness array-model"
SWEEPS = (
    row("sw-deep", "sweeps", "a result of 10^5 brackets", (), (0,), shell=SW, files={"sw/encode/e2m1/rne/saturate.json": DEEP}, seconds=90),
    row("sw-stray", "sweeps", "a foreign file of deep nesting elsewhere in the folder", (), (0,), shell=SW, files={"sw/encode/other/stray.json": DEEP}, seconds=90),
    row("sw-dir", "sweeps", "a folder named like the result", (), (2,), shell=SW, prepare=folder_named("sw/encode/e2m1/rne/saturate.json"), seconds=90),
    row("sw-fifo", "sweeps", "a FIFO named like the result", (), (0, 2), shell=SW, prepare=_sweep_fifo, seconds=90),
    Attack(id="x-sweep", kind="concurrency", what="two sweeps of different chunks into one folder at once", seconds=120, shell=f"{SW} & {SW.replace('--chunks 0', '--chunks 1')} & wait; grep -q '\"chunks\": \"0-1\"' sw/encode/e2m1/rne/saturate.json"),
)  # fmt: skip

OWN = (
    *(
        row(f"o-{option}-target", "own input", f"check t.py --{option} t.py", ("check", "t.py", "--quick", f"--{option}", "t.py"), (2,), "what this command reads", check=unchanged("t.py", HEAD + GOOD), quick=option == "json")
        for option in ("json", "html", "junit", "markdown", "badge", "write-waivers")
    ),
    row("o-link-target", "own input", "check t.py --json with a link to it", ("check", "t.py", "--quick", "--json", "l.json"), (2,), "what this command reads", prepare=lambda f: (f / "l.json").symlink_to("t.py"), check=unchanged("t.py", HEAD + GOOD)),
    row("o-hard-target", "own input", "the same with a second name", ("check", "t.py", "--quick", "--json", "l.json"), (2,), "what this command reads", prepare=lambda f: os.link(f / "t.py", f / "l.json"), check=unchanged("t.py", HEAD + GOOD)),
    row("o-dots-target", "own input", "the same written otherwise", ("check", "t.py", "--quick", "--json", "./x/../t.py"), (2,), "what this command reads", prepare=folder_named("x"), check=unchanged("t.py", HEAD + GOOD)),
    row("o-cmd-script", "own input", "check 'cmd:python t.py' --json t.py", ("check", "cmd:python t.py", "--quick", "--json", "t.py"), (2,), "what this command reads", check=unchanged("t.py", HEAD + GOOD)),
    row("o-identify", "own input", "identify t.py --json t.py", ("identify", "t.py", "--json", "t.py"), (2,), "what this command reads", check=unchanged("t.py", HEAD + GOOD)),
    row("o-diff", "own input", "diff t.py mxspec --json t.py", ("diff", "t.py", "mxspec", "--json", "t.py"), (2,), "what this command reads", check=unchanged("t.py", HEAD + GOOD)),
    row("o-fuzz", "own input", "fuzz t.py --json t.py", (*FUZZ, "--json", "t.py"), (2,), "what this command reads", check=unchanged("t.py", HEAD + GOOD)),
    row("o-fuzz-state", "own input", "fuzz t.py --state t.py", (*FUZZ, "--state", "t.py"), (2,), "what this command reads", check=unchanged("t.py", HEAD + GOOD)),
    row("o-waivers-write", "own input", "--write-waivers over a file with reasons", ("check", "t.py", "--quick", "--write-waivers", "w.toml"), (2,), "reasons", files={"w.toml": "# mine\n"}, check=unchanged("w.toml", "# mine\n")),
    row("o-waivers-both", "own input", "--waivers w.toml --write-waivers w.toml", (*CHECK_W, "--write-waivers", "w.toml"), (2,), "what this command reads", files={"w.toml": "# mine\n"}, check=unchanged("w.toml", "# mine\n")),
    row("o-prove-state", "own input", "prove -o p.json --state p.json", (*PROVE, "-o", "p.json", "--state", "p.json"), (2,), "both name p.json"),
    row("o-prove-suffix", "own input", "prove -o p.state", (*PROVE, "-o", "p.state"), (0,), check=lambda f, _: "" if (f / "p.state").is_file() else "there is no result"),
    row("o-same-two", "own input", "check --html x --junit x", ("check", "t.py", "--quick", "--html", "x", "--junit", "x"), (2,), "both name x", quick=True),
    row("o-dash", "own input", "check --html -", ("check", "t.py", "--quick", "--html", "-"), (2,), "'-' is not a file", check=only("t.py")),
    row("o-json-nul", "own input", "an output that is a folder", ("check", "t.py", "--quick", "--json", "d"), (2,), prepare=folder_named("d")),
)  # fmt: skip


def safetensors(table: Any, data: bytes = b"") -> bytes:
    text = table if isinstance(table, bytes) else json.dumps(table).encode("utf-8", "surrogatepass")
    return struct.pack("<Q", len(text)) + text + data


def gguf(keys: int, tensors: int, body: bytes) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", 3, tensors, keys) + body


def _string(text: bytes) -> bytes:
    return struct.pack("<Q", len(text)) + text


ENTRY = {"dtype": "U8", "shape": [1, 16], "data_offsets": [0, 16]}
WRONG = {"dtype": "NOPE", "shape": [1], "data_offsets": [0, 1]}
NAMED = (
    ("k-st-name-ansi", "tensor names with ANSI, newline, markup", "x.safetensors", safetensors({"\x1b]0;x\x07[/red]\n": WRONG}, b"x" * 16)),
    ("k-st-name-surrogate", "a tensor's name with half a character", "x.safetensors", safetensors(b'{"\\ud800.weight_packed":' + json.dumps(ENTRY).encode() + b"}", b"x" * 16)),
    ("k-st-name-40mb", "a tensor's name of 30 MB", "x.safetensors", safetensors({"n" * 30_000_000: ENTRY}, b"x" * 16)),
    ("k-st-deep", "10^5 brackets", "x.safetensors", safetensors(DEEP.encode())),
    ("k-gg-name-ansi", "a name with ANSI and NUL", "x.gguf", gguf(0, 1, _string(b"\x1b]0;x\x07\x00.weight") + struct.pack("<IQIQ", 1, 32, 39, 0))),
    ("k-gg-65k-keys", "65,536 keys of 60 kB", "x.gguf", gguf(65_536, 0, b"".join(_string(b"%060000d" % i) + struct.pack("<IB", 0, 0) for i in range(700)))),
    ("k-gg-130k-long", "names of 60 kB", "x.gguf", gguf(0, 700, b"".join(_string(b"%060000d" % i) + struct.pack("<IIQ", 0, 0, 0) for i in range(700)))),
    ("k-gg-strings-256", "64 keys with 2,097,152 empty strings each", "x.gguf", gguf(64, 0, b"".join(_string(b"k%d" % i) + struct.pack("<IIQ", 9, 8, 1 << 21) + bytes(8 << 21) for i in range(2)))),
)  # fmt: skip
INDEX = '{"metadata": {}, "weight_map": {"a": %s}}'
EXTRA = {f"{s}.safetensors": safetensors({"a": {"dtype": "U8", "shape": [16], "data_offsets": [0, 16]}}, b"x" * 16) for s in ("s1", "s2")}
SHARDS = (("nul", '"a\\u0000b.safetensors"'), ("long", json.dumps("n" * 5000 + ".safetensors")), ("ansi", '"\\u001b[31m.safetensors"'), ("surrogate", '"\\ud800.safetensors"'), ("dotdot", '"../a.safetensors"'))  # fmt: skip
_UNTOUCHED = "mxspec lint {0} {1}; rc=$?; echo lint $rc; test $rc -eq 1 -o $rc -eq 2 || exit 9; mxspec convert {0} o.gguf --to gguf; rc=$?; test ! -e o.gguf || exit 8; exit $rc"
CONTAINERS = (
  *(
    Attack(id=name, kind="containers", what=what, files={file: data}, shell=_UNTOUCHED.format(file, ""), codes=(2,), seconds=40, memory=300, quick=name.endswith("surrogate"))
    for name, what, file, data in NAMED
  ),
    Attack(id="k-ix-extra", kind="containers", what="two shards hold the same tensor", files=EXTRA | {"x.safetensors.index.json": '{"metadata": {}, "weight_map": {"a": "s1.safetensors", "b": "s2.safetensors"}}'}, shell=_UNTOUCHED.format("x.safetensors.index.json", ""), codes=(2,), seconds=40),
  *(
    Attack(id=f"k-ix-{name}", kind="containers", what=f"a shard's name: {name}", files={"x.safetensors.index.json": INDEX % shard}, shell=_UNTOUCHED.format("x.safetensors.index.json", ""), codes=(2,), seconds=40)
    for name, shard in SHARDS
  ),
)  # fmt: skip

MADE = "mxspec fuzz bad.py --batches 1 --seed 1 --jobs 1 --profile mx-floor --format mxfp4 --out f >/dev/null; f=$(ls f/*quantize* | head -1); "
BAD = {"bad.py": HEAD + "def quantize(x, fmt):\n    t = mxspec.quantize(x, fmt)\n    return t.codes ^ (t.codes == 3), t.scales\n"}
REPLAYS = (
    Attack(id="re-good", kind="replay", what="what fuzz wrote (control)", files=BAD, codes=(1,), seconds=60, shell=f"{MADE} mxspec fuzz bad.py --replay $f"),
    Attack(id="re-repeat", kind="replay", what="flag call-repeated-999999999", files=BAD, codes=(2,), seconds=60, words=("allowed are 1 to",), shell=f'{MADE} sed -i \'s/"flags":\\["fuzz"\\]/"flags":["fuzz","call-repeated-999999999"]/\' $f; mxspec fuzz bad.py --replay $f'),
    Attack(id="re-profile-index", kind="replay", what="a profile's number out of range", files=BAD, codes=(2,), seconds=60, shell=f'{MADE} sed -i \'s/"mx-floor":"0"/"mx-floor":"9"/\' $f; mxspec fuzz bad.py --replay $f'),
)  # fmt: skip

ATTACKS = (*REPLAYS, *RESULTS, *WAIVERS, *VECTORS, *REPORT_INPUTS, *OTHERS, *STATES, *SWEEPS, *OWN, *CONTAINERS)
