"""A solver in a process of its own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from mxspec.enums import StrEnum

#: Each prints one line of JSON: version, answer, values, seconds of CPU. argv: the script, a limit in seconds, the inputs' names.
_SCRIPTS = {
    "bitwuzla": """
import bitwuzla, importlib.metadata, json, sys, time
options = bitwuzla.Options()
options.set(bitwuzla.Option.PRODUCE_MODELS, True)
text = open(sys.argv[1]).read().replace("(check-sat)", "")
terms = bitwuzla.TermManager()
parser = bitwuzla.Parser(terms, options)
parser.parse(text, True, False)
solver = parser.bitwuzla()
answer = str(solver.check_sat()).lower().rpartition(".")[2]
values = {}
if answer == "sat":
    for term in parser.get_declared_funs():
        if term.symbol() in sys.argv[3:]:
            values[term.symbol()] = int(solver.get_value(term).value(2), 2)
print(json.dumps([importlib.metadata.version("bitwuzla"), answer, values, time.process_time()]))
""",
    "z3": """
import json, sys, time, z3
solver = z3.SolverFor("QF_BVFP")
solver.from_file(sys.argv[1])
answer = str(solver.check())
values = {}
if answer == "sat":
    model = solver.model()
    values = {d.name(): model[d].as_long() for d in model.decls() if d.name() in sys.argv[3:]}
print(json.dumps([z3.get_version_string(), answer, values, time.process_time()]))
""",
}  # fmt: skip
#: CPU time, so that the answer does not depend on what else the machine does.
_LIMIT = "import resource, sys\nresource.setrlimit(resource.RLIMIT_CPU, (int(sys.argv[2]), int(sys.argv[2]) + 5))\n"
SOLVERS = tuple(_SCRIPTS)


class Answer(StrEnum):
    """What a solver says."""

    UNSAT = "unsat"
    SAT = "sat"
    #: Not within the limit.
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Solved:
    """An answer, the inputs where there are some, and the CPU seconds of the solver's process, with reading the script."""

    version: str
    answer: Answer
    values: dict[str, int]
    seconds: float


def solve(text: str, solver: str, limit: int, names: tuple[str, ...] = ()) -> Solved:
    """Ask a solver; limit in CPU seconds.

    Raises RuntimeError where the solver's process fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "claim.smt2"
        path.write_text(text, "ascii")
        command = [sys.executable, "-c", _LIMIT + _SCRIPTS[solver], str(path), str(limit), *names]
        run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode == -signal.SIGXCPU:
        return Solved("", Answer.UNKNOWN, {}, float(limit))
    if run.returncode:
        raise RuntimeError(f"{solver} ended with {run.returncode}: {run.stderr.strip()[-400:]}")
    version, answer, values, seconds = json.loads(run.stdout.strip().splitlines()[-1])
    known = Answer(answer) if answer in tuple(Answer) else Answer.UNKNOWN
    return Solved(version, known, values, round(seconds, 2))
