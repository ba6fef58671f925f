"""A block format that a caller registers has vectors like the others: built, stored, read, digested and exported."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import mxspec
from mxspec import formats
from mxspec.formats import E2M1, E8M0, ELEMENTS, BlockFormat, get_block
from mxspec_vectors import files, verify
from mxspec_vectors.build import build_document, list_files
from mxspec_vectors.cases import (
    forget_cases,
    load_dequantize_tensors,
    load_quantize_cases,
    load_scale_cases,
    load_scale_recipes,
    open_document,
    read_dequantize_cases,
)
from mxspec_vectors.compact import expand
from mxspec_vectors.digests import content_digest, digest_document
from mxspec_vectors.export import export
from mxspec_vectors.files import VectorError, read_document, read_index, render
from mxspec_vectors.topics import Level, topic_level

#: Sixteen e2m1 elements under an e8m0 scale.
MINE = BlockFormat(name="mine-e2m1-16", element=E2M1, scale=E8M0, k=16, shapes=((1, 16),))


@pytest.fixture
def mine() -> Iterator[str]:
    """Registers the format for one test."""
    forget_cases()
    mxspec.register_block(MINE)
    yield MINE.name
    del formats._blocks[MINE.name]
    forget_cases()


def test_a_registered_format_has_vectors(mine: str) -> None:
    assert [o for o, fmt in list_files() if fmt == mine] == ["scale", "quantize", "dequantize"]
    for operation in ("scale", "quantize", "dequantize"):
        document = build_document(operation, mine)
        data = render(document)
        assert list(verify.validate(operation, json.loads(data))) == []
        assert expand(json.loads(data)) == document
        assert "mx-floor" in document["profiles"]
        assert digest_document(document, ["mx-floor"]) == content_digest(operation, mine, ["mx-floor"])
        with pytest.raises(VectorError, match="there is no vector file"):
            read_document(operation, mine)


def test_a_shipped_format_is_never_built_in_place_of_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = read_index()
    del index["files"]["quantize/mxint8.json"]
    (tmp_path / "index.json").write_text(json.dumps(index), encoding="ascii")
    monkeypatch.setattr(files, "vectors_root", lambda: tmp_path)
    with pytest.raises(VectorError, match=r"there is no vector file quantize/mxint8\.json"):
        open_document("quantize", "mxint8")
    with pytest.raises(VectorError, match=r"mxfp4\.json does not exist"):
        open_document("quantize", "mxfp4")


def test_a_registered_format_is_read_as_typed_cases(mine: str) -> None:
    cases = load_quantize_cases(mine)
    rows = [c for c in cases if c.is_row]
    assert len(rows) > 400
    assert {c.x.shape for c in rows} == {(1, 16)}
    plain = [c for c in rows if c.topic not in ("nan", "inf", "zero-block")]
    for profile in ("mx-floor", "mx-even"):
        answer = mxspec.quantize(np.concatenate([c.x for c in plain]), mine, profile=profile)
        for case, scale, codes in zip(plain, answer.scales, answer.codes, strict=True):
            first = case.answers[profile][0]
            assert (first.scale.tolist(), first.codes.tolist()) == (scale.tolist(), codes.tolist()), case.id
    assert len(load_scale_cases(mine)) > 10
    maxima = load_scale_recipes(mine)
    assert sum(len(c.amax) for c in maxima) == 1 << 15
    assert load_dequantize_tensors(mine) == (None,)
    assert all(c.codes.shape[1] == 16 for c in read_dequantize_cases(build_document("dequantize", mine)))


def test_a_registered_format_is_exported(mine: str, tmp_path: Path) -> None:
    (path,) = export(tmp_path, kind="npz", fmt=mine, profile="mx-floor")
    with np.load(path, allow_pickle=False) as stored:
        assert stored["x"].shape[1] == stored["codes"].shape[1] == get_block(mine).k


def test_formats_with_a_nan_must_keep_it() -> None:
    """The level of a NaN is the format's: OFP8 elements have a code for it."""
    for operation in ("encode", "stochastic"):
        found = {name for name in ELEMENTS if topic_level("nan", operation, name) is Level.MUST}
        assert found == {"e4m3", "e5m2"}
    assert topic_level("nan", "encode", "e8m0") is Level.OPEN
    assert topic_level("nan", "quantize", "mxfp8_e4m3") is Level.MUST
    assert topic_level("nan", "quantize", "mxfp4") is Level.OPEN
