"""A bundle of requests to run anywhere, and the file of replies to it as a target.

A bundle holds the lines that the judge would send to a process; a results file holds the lines that came back. Calls that
depend on earlier answers (a failing block made smaller, halves of a batch that failed) are not in the first bundle: the judge
writes them as a further one, and replies to it are appended to the results.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import mxspec
from mxspec.formats import get_block
from mxspec.layouts import get_layout
from mxspec_conformance.targets.arrays import pack_nibbles, swizzle_128x4
from mxspec_conformance.targets.capabilities import Capabilities, TargetError
from mxspec_conformance.targets.interface import OPERATIONS
from mxspec_conformance.targets.marshalling import Marshaller
from mxspec_conformance.targets.sessions import CallError, InProcessSession, run_call
from mxspec_conformance.transports.description import (
    PROTOCOL,
    describe_surroundings,
    find_reply_violation,
    read_description,
)
from mxspec_conformance.transports.remote import RemoteModule
from mxspec_conformance.transports.wire import digest_call, dump_line, name_arguments, parse_line, write_request
from mxspec_vectors.files import write_file

#: (id, function, arguments).
Request = tuple[str, str, Mapping[str, Any]]


class ResultsFile:
    """Answers calls with recorded replies.

    Raises TargetError where the file is no results file, naming the line.
    """

    road = "results-file"

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        description, self._replies = _read_results(self._path)
        self.capabilities = read_description(description, str(path))
        self.environment = describe_surroundings(description)
        #: Calls without an answer, for a further bundle.
        self.missing: list[Request] = []
        self._failed: dict[str, str] = {}
        self._marshaller = Marshaller(RemoteModule(self.capabilities, self._ask), self.capabilities)

    def _ask(self, identifier: str, function: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        reply = self._replies.get(identifier)
        if reply is None:
            self.missing.append((identifier, function, arguments))
            after = f"; of a larger call: {self._failed[function]}" if function in self._failed else ""
            raise CallError(
                "error",
                f"the results hold no answer to this call (--ask FILE writes what is missing){after}",
                final=True,
            )
        if "error" in reply:
            self._failed[function] = reply["error"]["message"]
        return reply

    def call(self, function: str, /, *args: Any, **kwargs: Any) -> Any:
        """One call; raises CallError."""
        kind, value, detail = run_call(self._marshaller, function, args, kwargs)
        if kind != "ok":
            raise CallError(kind, value, detail)
        return value

    def close(self) -> None:
        """Nothing to free."""


def _read_results(path: Path) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise TargetError(
            f"{path} does not exist; pass a results file: the replies to a bundle, one JSON line each"
        ) from None
    description: dict[str, Any] | None = None
    replies: dict[str, dict[str, Any]] = {}
    for number, line in enumerate(data.splitlines(), 1):
        if not line.strip():
            continue
        place = f"{path}, line {number}"
        try:
            document = parse_line(line)
        except ValueError as error:
            if number == 1 and _is_verdicts(data):
                raise TargetError(f"{path} holds verdicts; `mxspec report {path} -o DIR` shows them") from None
            cut = "; the file is cut short" if not data.endswith(b"\n") and number == data.count(b"\n") + 1 else ""
            raise TargetError(f"{place} is not JSON ({str(error).partition(': line')[0]}){cut}") from None
        if isinstance(document, dict) and "mxspec" in document:
            if description is not None and description != document:
                raise TargetError(f"{place} describes another target than before; keep the results of each apart")
            description = document
            continue
        violation = find_reply_violation(document)
        if violation is not None:
            raise TargetError(f"{place} is no reply: {violation}")
        if description is None:
            raise TargetError(f"{place} comes before the reply to start, which describes the target")
        known = replies.setdefault(document["id"], document)
        if known != document:
            raise TargetError(f"{place} answers {document['id']} otherwise than an earlier line")
    if description is None:
        raise TargetError(f"{path} is empty; its first line is the reply to start")
    return description, replies


def _is_verdicts(data: bytes) -> bool:
    try:
        document = json.loads(data)
    except ValueError:
        return False
    first = document[0] if isinstance(document, list) and document else document
    return isinstance(first, dict) and str(first.get("schema", "")).startswith("mxspec-result/")


def write_bundle(path: Path, requests: Iterable[Request], encoding: str = "base64") -> int:
    """Write requests, between start and stop, and return how many there are."""
    lines = [dump_line({"cmd": "start", "mxspec": PROTOCOL})]
    lines += [dump_line(write_request(*request, encoding)) for request in requests]
    lines.append(dump_line({"cmd": "stop"}))
    write_file(path, b"".join(lines))
    return len(lines) - 2


def plan_requests(capabilities: Capabilities, formats: Sequence[str] | None = None) -> list[Request]:
    """Every call that judging a conforming target with these capabilities makes, in order."""
    from mxspec_conformance.judge.check import check

    recorder = _Recorder(capabilities)
    check(InProcessSession(recorder, capabilities.name), formats=formats)
    return recorder.requests


class _Recorder:
    """The model, dressed as a target with given capabilities; it keeps what it is asked."""

    def __init__(self, capabilities: Capabilities) -> None:
        self.MXSPEC_CAPABILITIES = capabilities
        self.requests: list[Request] = []
        self._times: dict[str, int] = {}

    def __getattr__(self, name: str) -> Any:
        if name not in OPERATIONS or name not in self.MXSPEC_CAPABILITIES.functions:
            raise AttributeError(name)
        return partial(self._run, name)

    def _run(self, function: str, /, *args: Any, **kwargs: Any) -> Any:
        arguments = name_arguments(function, args, kwargs)
        digest = digest_call(function, arguments)
        times = self._times[digest] = self._times.get(digest, 0) + 1
        kept = {k: np.array(v) if isinstance(v, np.ndarray) else v for k, v in arguments.items()}
        self.requests.append((digest if times == 1 else f"{digest}.{times}", function, kept))
        return getattr(self, f"_{function}")(*args, **kwargs)

    def _tensor(self, fmt: str, value: float | None) -> tuple[str | None, Any]:
        """A profile that takes the kind of tensor scale that the capabilities name, and the scale."""
        if value is None:
            return None, None
        kind = self.MXSPEC_CAPABILITIES.tensor_scale
        known = [p for p in mxspec.list_profiles(fmt) if p.tensor is not None and p.tensor.native.value == kind]
        return known[0].id, mxspec.TensorScale.from_float(kind, value)

    def _quantize(self, x: Any, fmt: str, tensor_scale: float | None = None, **options: Any) -> Any:
        profile, scale = self._tensor(fmt, tensor_scale)
        t = mxspec.quantize(x, fmt, profile=profile, tensor_scale=scale, **options)
        codes, scales = t.codes, t.scales
        if self.MXSPEC_CAPABILITIES.code_layout == "nibble-low" and get_block(fmt).element.bits == 4:
            codes = pack_nibbles(codes)
        if self.MXSPEC_CAPABILITIES.scale_layout == "128x4":
            scales = swizzle_128x4(scales)
        return codes, scales

    def _dequantize(self, codes: Any, scales: Any, fmt: str, tensor_scale: float | None = None) -> Any:
        if self.MXSPEC_CAPABILITIES.code_layout == "nibble-low" and get_block(fmt).element.bits == 4:
            codes = np.stack([codes & 0xF, codes >> 4], axis=-1).reshape(codes.shape[0], -1)
        profile, scale = self._tensor(fmt, tensor_scale)
        return mxspec.dequantize(codes, np.asarray(scales), fmt, profile=profile, tensor_scale=scale)

    def _encode(self, x: Any, element: str, **options: Any) -> Any:
        return mxspec.encode(x, element, **options)

    def _decode(self, codes: Any, element: str) -> Any:
        return mxspec.decode(codes, element)

    def _encode_stochastic(self, x: Any, element: str, random_bits: Any) -> Any:
        return np.zeros(x.shape, np.uint8)

    def _tensor_scale(self, x: Any, fmt: str) -> Any:
        return 1.0

    def _pack(self, *parts_and_layout: Any) -> Any:
        *parts, layout = parts_and_layout
        return get_layout(layout).pack(*reversed(parts))

    def _unpack(self, data: Any, layout: str, shape: tuple[int, ...]) -> Any:
        found = get_layout(layout).unpack(data, shape)
        return found[0] if len(found) == 1 else tuple(reversed(found))

    _swizzle = _pack_blocks = _pack
    _unswizzle = _unpack_blocks = _unpack

    def _dot(self, a_codes: Any, a_scales: Any, b_codes: Any, b_scales: Any, fmt: str, **scales: float | None) -> Any:
        return np.zeros((a_codes.shape[0], b_codes.shape[0]), np.float32)
