"""vLLM: GPTQ and AWQ words, Marlin tiles and scales, by its Python functions on the CPU.

Only the modules that hold them are imported; the rest of vLLM, which wants a GPU and a hundred packages, is mocked.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator

import numpy as np
import torch

from mxspec import layouts
from mxspec.elements import decode_table
from mxspec.formats import UE4M3

from tests.peers.layouts.compare import WIDE, Bytes, Comparison, compare_packed, compare_unpacked, fit_shapes, number_items
from tests.peers.layouts.sources import find_package, open_packages, stub_modules

PACKAGES = ("torch", "vllm")
_UTILS = "vllm.model_executor.layers.quantization.utils"
_REAL = tuple(f"{_UTILS}.{n}" for n in ("quant_utils", "marlin_utils", "marlin_utils_test", "marlin_utils_fp4"))


def compare() -> Iterator[Comparison]:
    """Every comparison."""
    root = find_package("vllm").parent
    parts = _UTILS.split(".")
    packages = tuple(".".join(parts[: n + 1]) for n in range(len(parts)))
    stub_modules("vllm", real=_REAL)
    open_packages(root, *packages)
    quant, marlin, tiles, fp4 = (importlib.import_module(name) for name in _REAL)
    for shape in fit_shapes("gptq", WIDE):
        yield from compare_packed("gptq", shape, lambda c: quant.gptq_pack(_turned(c), 4, *c.shape[::-1]).numpy(), codes=16)
    for shape in fit_shapes("awq", WIDE):
        yield from compare_packed("awq", shape, lambda c: quant.awq_pack(_turned(c), 4, *c.shape[::-1]).numpy(), codes=16)
        zeros = shape[::-1]
        yield from compare_packed("awq-zeros", zeros, lambda c: quant.awq_pack(_plain(c), 4, *c.shape).numpy(), codes=16)
        yield from compare_packed("nibble-low", zeros, lambda c: quant.pack_cols(_plain(c), 4, *c.shape).numpy(), codes=16)
        yield from compare_unpacked(
            "nibble-low", zeros,
            lambda d, s=zeros: quant.unpack_cols(torch.from_numpy(d.view("<i4").reshape(s[0], -1).copy()), 4, *s).numpy(), codes=16,
        )  # fmt: skip
    perm = tiles.get_weight_perm(4)
    for shape in ((64, 16), (64, 48), (128, 16), (192, 64), (320, 112)):
        yield from compare_packed("marlin", shape, lambda c: tiles.marlin_weights(_turned(c), *c.shape[::-1], 4, perm).numpy(), codes=16)
    for shape in ((64, 2), (64, 5), (128, 3), (320, 7), (576, 16)):
        yield from compare_packed(
            "marlin-scales", shape,
            lambda s: marlin.marlin_permute_scales(_float(s), 32 * s.shape[1], s.shape[0], 32).numpy().astype(np.uint8), codes=256,
        )  # fmt: skip
        yield from compare_packed("marlin-scales-mxfp4", shape, lambda s: _mxfp4(marlin, fp4, s), codes=255)
        yield from _compare_nvfp4(marlin, fp4, shape)


def _turned(codes: Bytes) -> torch.Tensor:
    """[N, K] as vLLM's [K, N]."""
    return torch.from_numpy(np.ascontiguousarray(codes.T).astype(np.int32))


def _plain(codes: Bytes) -> torch.Tensor:
    return torch.from_numpy(codes.astype(np.int32))


def _float(scales: Bytes) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(scales.T).astype(np.float32))


def _mxfp4(marlin: object, fp4: object, scales: Bytes) -> np.ndarray:
    """As prepare_fp4_layer_for_marlin does it: E8M0 to the activations' type, permuted, and back to E8M0."""
    values = torch.from_numpy(np.ascontiguousarray(scales.T)).view(torch.float8_e8m0fnu).to(torch.bfloat16)
    permuted = marlin.marlin_permute_scales(values, 32 * scales.shape[1], scales.shape[0], 32)  # type: ignore[attr-defined]
    done: np.ndarray = fp4.mxfp4_marlin_process_scales(permuted).view(torch.uint8).numpy()  # type: ignore[attr-defined]
    return done


def _compare_nvfp4(marlin: object, fp4: object, shape: tuple[int, int]) -> Iterator[Comparison]:
    """Under a scale factor of 1, which float16 activations always have and others have where the largest scale is 448."""
    # Scales below 2^-6, the codes 1 to 7, are zeroed under that factor.
    for scales in number_items(shape, (0, *range(8, 127))):
        values = torch.from_numpy(np.ascontiguousarray(decode_table(UE4M3)[scales].T)).to(torch.float16)
        permuted = marlin.marlin_permute_scales(values, 16 * shape[1], shape[0], 16)  # type: ignore[attr-defined]
        theirs, factor = fp4.nvfp4_marlin_process_scales(permuted, a_dtype=torch.float16)  # type: ignore[attr-defined]
        assert factor == 1
        data = layouts.pack(scales, "marlin-scales-nvfp4")
        yield Comparison("marlin-scales-nvfp4", "pack", shape, data, theirs.view(torch.uint8).numpy())
