"""The command `init`: a target file with what has to be filled in, tried at once."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from mxspec.formats import BLOCKS
from mxspec.profiles import default_profile
from mxspec_conformance.cli.console import fail, make_console
from mxspec_conformance.cli.parameters import OUTPUT_FILE
from mxspec_vectors.files import write_file

#: What marks a place that the user has to change.
MARK = "FILL IN"


@dataclass(frozen=True, slots=True)
class Function:
    """A function of a target."""

    name: str
    arguments: str
    #: What it takes and returns.
    text: str
    #: Python lines by which the model answers, so that every array and dtype is tried before there is a kernel; <x>: x as a NumPy array.
    model: tuple[str, ...]
    #: Structure of its call in C, where it is not named after the function.
    call: str = ""
    #: How a kernel on a card is launched; shown in a comment.
    launch: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Kind:
    """What a target computes."""

    #: Lines of Python and keys of the JSON description that declare it.
    declares: str
    capabilities: Mapping[str, Any]
    functions: tuple[Function, ...]
    imports: tuple[str, ...] = ("import mxspec",)
    #: Frameworks that make no sense, and why.
    refused: Mapping[str, str] = field(default_factory=dict)
    #: Lines at the end of a file that is a program.
    program: str = ""
    #: What else is often declared, in comments.
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Framework:
    """What a target is written in."""

    suffix: str = ".py"
    imports: tuple[str, ...] = ()
    declares: tuple[str, ...] = ()
    #: The module that has to be there.
    needs: str = ""
    #: An array as a NumPy array.
    host: str = "{}"
    #: What replaces the model.
    call: str = "call your function here, and return what it returns"
    name: str = '"placeholder"'


_NO_FILE = "a checkpoint is a file: mxspec reads what your exporter writes, whatever it is written in"
KINDS: Mapping[str, Kind] = {
    "quantizer": Kind(
        'FORMATS = ["mxfp4"]',
        {"formats": ["mxfp4"]},
        (
            Function(
                "quantize", "x, fmt",
                "x float32 [rows, k] -> codes uint8 [rows, k], one to a byte, and scales uint8 [rows, k / 32].",
                ("t = mxspec.quantize(<x>, fmt)", "return t.codes, t.scales"),
                launch=(
                    "codes = torch.empty((x.shape[0], x.shape[1] // 2), dtype=torch.uint8, device=x.device)  # LAYOUT says how they are packed",
                    "scales = torch.empty((x.shape[0], x.shape[1] // 32), dtype=torch.uint8, device=x.device)",
                    "your_kernel[(x.shape[0],)](x, codes, scales, x.shape[1])",
                    "return codes, scales",
                ),
            ),
        ),
        options=(
            'LAYOUT = "nibble-low"  # two codes in a byte, the first in the low half',
            'DTYPES = ["float32", "bfloat16"]  # of x; one by one where not all are taken',
            'PROFILE = "mx-rceil"  # the rule that you promise; `mxspec profiles` lists them',
        ),
    ),
    "dequantizer": Kind(
        'FORMATS = ["mxfp4"]',
        {"formats": ["mxfp4"]},
        (
            Function(
                "dequantize", "codes, scales, fmt",
                "codes uint8 [rows, k], one to a byte, scales uint8 [rows, k / 32] -> values float32 [rows, k].",
                ('return mxspec.BlockTensor.from_codes(<codes>, <scales>, fmt).dequantize("float32")',),
            ),
        ),
    ),
    "product": Kind(
        'OPERANDS = {"a": "mxfp8_e4m3", "b": "mxfp4"}',
        {"products": ["mxfp8_e4m3 @ mxfp4"]},
        (
            Function(
                "matmul", "a, b, out_dtype",
                "a [m, k] and b [n, k], each with codes uint8 [rows, k], scales uint8 [rows, k / 32], format, shape -> float32 [m, n], a b^T.",
                (
                    "a, b = (mxspec.BlockTensor.from_codes(<one.codes>, <one.scales>, one.format) for one in (a, b))",
                    'return a.dequantize("float32") @ b.dequantize("float32").T',
                ),
            ),
        ),
    ),
    "layout": Kind(
        'LAYOUTS = ["128x4"]',
        {"layouts": ["128x4"]},
        (
            Function(
                "swizzle", "scales, layout", "scales uint8 [rows, columns] -> data uint8, flat, in the layout, padded as it says.",
                ("return get_layout(layout).pack(<scales>)",), "layout",
            ),
            Function(
                "unswizzle", "data, layout, shape", "The same back: data uint8, flat -> scales uint8 of that shape.",
                ("return get_layout(layout).unpack(<data>, shape)[0]",), "layout",
            ),
        ),
        ("from mxspec.layouts import get_layout",),
    ),
    "checkpoint": Kind(
        "",
        {},
        (
            Function(
                "export", "weights, file", "weights: name -> float32 [n, k]; write them to file, quantized.",
                (
                    'tensors = {name.removesuffix(".weight"): mxspec.quantize(<w>, "mxfp4") for name, w in weights.items()}',
                    'containers.write(file, tensors, "compressed-tensors")',
                ),
            ),
        ),
        ("import json", "import sys", "from pathlib import Path", "", "import numpy as np", "", "import mxspec", "from mxspec import containers"),
        dict.fromkeys(("triton", "cupy", "c", "process"), _NO_FILE),
        '''

def save(weights, file):
    """The original as safetensors: a header of JSON, then the numbers."""
    arrays = {name: np.asarray(w, "<f4") for name, w in weights.items()}
    ends = np.cumsum([a.nbytes for a in arrays.values()]).tolist()
    header = {
        name: {"dtype": "F32", "shape": a.shape, "data_offsets": [end - a.nbytes, end]} for (name, a), end in zip(arrays.items(), ends)
    }
    text = json.dumps(header).encode()
    Path(file).write_bytes(len(text).to_bytes(8, "little") + text + b"".join(a.tobytes() for a in arrays.values()))


if __name__ == "__main__":
    draw = np.random.default_rng(1).standard_normal
    weights = {f"model.layers.{i}.mlp.up_proj.weight": <<draw((64, 128)).astype(np.float32)>> for i in range(2)}
    save(weights, sys.argv[1])
    export(weights, sys.argv[2])
''',
    ),
}  # fmt: skip
_TORCH = ("import torch",), ('ARRAYS = "torch"', 'DEVICE = "cuda" if torch.cuda.is_available() else "cpu"')
FRAMEWORKS: Mapping[str, Framework] = {
    "numpy": Framework(),
    "torch": Framework(imports=_TORCH[0], declares=_TORCH[1], needs="torch", host="{}.cpu().numpy()"),
    "triton": Framework(
        imports=_TORCH[0], declares=_TORCH[1], needs="torch", host="{}.cpu().numpy()", name='f"placeholder-{DEVICE}"',
        call='if DEVICE == "cuda": launch your kernel here, and return what it wrote. What follows is then its CPU twin',
    ),
    "cupy": Framework(imports=("import cupy",), declares=('ARRAYS = "cupy"',), needs="cupy", host="{}.get()"),
    "c": Framework(".c"),
    "process": Framework(),
}  # fmt: skip


_AMAX = "None if tensor_scale is None else mxspec.TensorScale.from_float(TENSOR_SCALE, tensor_scale)"


def _in_format(chosen: Kind, fmt: str) -> Kind:
    """A quantizer or dequantizer of another format."""
    block = BLOCKS[fmt]
    swap = {'"mxfp4"': f'"{fmt}"', "k / 32": f"k / {block.k}", "// 32": f"// {block.k}", "mx-rceil": default_profile(fmt).id}
    if block.has_tensor_scale:
        swap |= {f'"{fmt}"]': f'"{fmt}"]\nTENSOR_SCALE = "amax"  # or "decode", "encode": what your kernel is given'}

    def put(text: str) -> str:
        for old, new in swap.items():
            text = text.replace(old, new)
        return text

    def of(f: Function) -> Function:
        argument, use = (", tensor_scale=None", f"fmt, tensor_scale={_AMAX})") if block.has_tensor_scale else ("", "fmt)")
        model = tuple(line.replace("fmt)", use) for line in f.model)
        return replace(f, arguments=f.arguments + argument, text=put(f.text), model=model, launch=tuple(map(put, f.launch)))

    capabilities = {**chosen.capabilities, "formats": [fmt], **({"tensor_scale": "amax"} if block.has_tensor_scale else {})}
    return replace(
        chosen, declares=put(chosen.declares), capabilities=capabilities, functions=tuple(map(of, chosen.functions)),
        options=tuple(map(put, chosen.options)),
    )  # fmt: skip


def write_template(kind: str, framework: str, file: Path, fmt: str = "mxfp4") -> str:
    """The text of a target file.

    Raises ValueError where these do not go together.
    """
    chosen, using = KINDS[kind], FRAMEWORKS[framework]
    if fmt != "mxfp4":
        if kind not in ("quantizer", "dequantizer"):
            raise ValueError(f"--format is for a quantizer or a dequantizer, not for a {kind}; leave it out")
        chosen = _in_format(chosen, fmt)
    if reason := chosen.refused.get(framework):
        allowed = ", ".join(f for f in FRAMEWORKS if f not in chosen.refused)
        raise ValueError(f"there is no {kind} in {framework}: {reason}; allowed are {allowed}")
    if file.suffix != using.suffix:
        raise ValueError(f"{file}: a {kind} in {framework} is a {using.suffix} file; name one")
    if framework == "c":
        return _write_c(chosen, file)
    if framework == "process":
        return _write_process(chosen, file)
    return _write_python(kind, chosen, using, file)


def _write_python(kind: str, chosen: Kind, using: Framework, file: Path) -> str:
    def on_host(line: str) -> str:
        return re.sub(r"<([\w.]+)>", lambda m: using.host.format(m[1]), line)

    if chosen.program:
        head = f'"""Writes a small checkpoint as your exporter does: python {file.name} ORIGINAL OUT. {MARK} marks what is yours."""'
    else:
        head = f'"""A {kind} for `mxspec check {file.name}`. {MARK} marks what is yours."""'
    lines = [head, "", *using.imports, *([""] if using.imports else []), *chosen.imports, ""]
    if chosen.declares:
        lines += [*using.declares, f'NAME, VERSION = {using.name}, "0"  # {MARK}', f"{chosen.declares}  # {MARK}"]
        lines += [*(f"# {option}" for option in chosen.options), ""]
    for function in chosen.functions:
        body = [
            f'"""{function.text}"""',
            f"# {MARK}: {using.call}.",
            *(f"#     {line}" for line in function.launch if using is FRAMEWORKS["triton"]),
            "# Until then mxspec's own model answers.",
            *map(on_host, function.model),
        ]
        lines += ["", f"def {function.name}({function.arguments}):", *(f"    {line}" for line in body), ""]
    made = "torch.from_numpy({})" if using.needs == "torch" else "{}"
    return "\n".join(lines).rstrip("\n") + "\n" + re.sub(r"<<(.*)>>", lambda m: made.format(m[1]), chosen.program)


def _describe(chosen: Kind) -> str:
    functions: dict[str, list[str]] = {f.name: [] for f in chosen.functions}
    return json.dumps({"mxspec": 1, "name": "placeholder", "version": "0", "capabilities": {**chosen.capabilities, "functions": functions}})


def _write_c(chosen: Kind, file: Path) -> str:
    lines = [
        f"/* {' '.join(_compile(file, 'lib' + file.stem + '.so', '$(mxspec header --folder)'))}",
        f" * mxspec check ./lib{file.stem}.so",
        f" * {MARK} marks what is yours. */",
        '#include "mxspec_target.h"', "",
        "int32_t mxspec_abi(void) { return MXSPEC_ABI; }", "",
        f"const char *mxspec_describe(void) {{ /* {MARK}: name, version, what it offers */",
        f"    return {json.dumps(_describe(chosen))};", "}", "",
        'const char *mxspec_message(void) { return "not filled in"; }',
    ]  # fmt: skip
    for function in chosen.functions:
        lines += [
            "", f"/* {function.text}", f" * The members of call are in mxspec_target.h. {MARK}: call your function, and return MXSPEC_OK. */",
            f"int32_t mxspec_{function.name}(const mxspec_{function.call or function.name}_call *call) {{", "    (void)call;",
            "    return MXSPEC_UNSUPPORTED;", "}",
        ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _write_process(chosen: Kind, file: Path) -> str:
    texts = "\n".join(f"    {f.name}({f.arguments.replace('fmt', 'format')}): {f.text}" for f in chosen.functions)
    return f'''"""A program for `mxspec check 'cmd:python {file.name}'`, in any language: JSON lines, see `mxspec protocol`. {MARK} marks what is yours."""

import json
import sys

# {MARK}: name, version, what it offers
DESCRIPTION = {_describe(chosen)}


def answer(function, arguments):
    """The outputs of a call. Arrays are {{"dtype": ..., "shape": ..., "base64": ...}}, or "hex".

{texts}
    """
    # {MARK}: return {{"outputs": {{...}}}}
    return {{"skipped": {{"reason": "not filled in"}}}}


for line in sys.stdin:
    request = json.loads(line)
    if request["cmd"] == "stop":
        break
    reply = DESCRIPTION if request["cmd"] == "start" else {{"id": request["id"], **answer(request["function"], request["arguments"])}}
    print(json.dumps(reply), flush=True)
'''


def _compile(source: Path, library: str, include: str) -> list[str]:
    return ["cc", "-O2", "-shared", "-fPIC", "-I", include if include.startswith("/") else f'"{include}"', source.name, "-o", library]


@click.command()
@click.argument("kind", type=click.Choice(list(KINDS)), default="quantizer")
@click.argument("file", type=OUTPUT_FILE, required=False)
@click.option(
    "--with", "framework", type=click.Choice(list(FRAMEWORKS)), help="What the target is written in; default: numpy, for a .c file c."
)
@click.option("--format", "fmt", type=click.Choice(list(BLOCKS)), default="mxfp4", help="Of a quantizer or dequantizer; default: mxfp4.")
def init(kind: str, file: Path | None, framework: str | None, fmt: str) -> None:
    """Write a target file to fill in, and try it.

    FILE, by default my_KIND.py, is a legal target as it is written: in Python the model of mxspec answers until your function
    is called, so that arrays and dtypes are tried first; its name in reports is "placeholder". In C and as a process nothing is
    offered until it is filled in.

    Exit code: 0; 1 if the written file does not answer; 2 if nothing was written.
    """
    framework = framework or ("c" if file is not None and file.suffix == ".c" else "numpy")
    file = file or Path(f"my_{kind}{FRAMEWORKS[framework].suffix}")
    if file.exists():
        fail(f"{file} exists, and is left as it is; name a new file")
    try:
        text = write_template(kind, framework, file, fmt)
    except ValueError as error:
        fail(str(error))
    write_file(file, text.encode("ascii"))
    click.echo(f"{file} is written; what you have to change is marked {MARK}.\n")
    ok = _try(kind, framework, file)
    stands_in = "Nothing is offered" if framework in ("c", "process") else "mxspec's own model answers, as `placeholder`,"
    click.echo(f"\nNext: put your own function into {file}, then\n  {_next(kind, framework, file)}\n{stands_in} until then.")
    raise click.exceptions.Exit(0 if ok else 1)


def _next(kind: str, framework: str, file: Path) -> str:
    if kind == "checkpoint":
        return f"python {file} original.safetensors model.safetensors && mxspec lint model.safetensors --against original.safetensors"
    if framework == "c":
        library = f"lib{file.stem}.so"
        return f"{' '.join(_compile(file, library, '$(mxspec header --folder)'))} && mxspec check ./{library}"
    return f"mxspec check {shlex.quote(f'cmd:python {file}')}" if framework == "process" else f"mxspec check {file}"


def _try(kind: str, framework: str, file: Path) -> bool:
    """Whether the file answers, or cannot be tried here, which is said."""
    from mxspec_conformance.cli.transports import show_steps
    from mxspec_conformance.transports.library import header_path
    from mxspec_conformance.transports.smoke import try_target

    needs = FRAMEWORKS[framework].needs
    if needs and find_spec(needs) is None:
        click.echo(f"Not tried: {needs} is not installed here; `mxspec smoke {file}` tries it where it is.")
        return True
    if framework == "c" and shutil.which("cc") is None:
        click.echo("Not tried: there is no C compiler, cc, here.")
        return True
    with tempfile.TemporaryDirectory() as scratch:
        if kind == "checkpoint":
            original, written = (str(Path(scratch, f"{name}.safetensors")) for name in ("original", "model"))
            lint = [sys.executable, "-m", "mxspec_conformance", "lint", written, "--against", original]
            return _run([sys.executable, str(file), original, written]) and _run(lint)
        target: Any = str(file)
        if framework == "c":
            target = str(Path(scratch, "libtarget.so"))
            if not _run(_compile(file.absolute(), target, str(header_path().parent)), cwd=file.absolute().parent):
                return False
        elif framework == "process":
            target = f"cmd:{shlex.join([sys.executable, str(file)])}"
        return show_steps(try_target(target), make_console())


def _run(command: Sequence[str], cwd: Path | None = None) -> bool:
    return subprocess.run(command, cwd=cwd, check=False).returncode == 0
