"""TensorRT-LLM's offsets of scales: the host functions of its header, as FlashInfer ships it, compiled here."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from mxspec import layouts

from tests.peers.layouts.compare import STRADDLING, Comparison, compare_offsets
from tests.peers.layouts.sources import find_package

PACKAGES = ("flashinfer-python",)
_HEADER = Path("data") / "csrc" / "nv_internal" / "tensorrt_llm" / "kernels" / "quantization_utils.cuh"
_FUNCTION = re.compile(r"^inline __device__ __host__ int64_t get_sf_out_offset_.*?^}$", re.MULTILINE | re.DOTALL)
_MAIN = """
#include <cstdio>
#include <cstdlib>
int main(int, char** words) {
  const int tile = std::atoi(words[1]), batch = std::atoi(words[2]), rows = std::atoi(words[3]), columns = std::atoi(words[4]);
  for (int b = 0; b < batch; ++b)
    for (int m = 0; m < rows; ++m)
      for (int c = 0; c < columns; ++c) {
        long one = tile == 8 ? get_sf_out_offset_8x4(m, c, columns) : get_sf_out_offset_128x4(m, c, columns);
        long all = tile == 8 ? get_sf_out_offset_8x4(b, m, c, rows, columns) : get_sf_out_offset_128x4(b, m, c, rows, columns);
        std::printf("%ld\\n", batch > 1 ? all : one);
      }
}
"""


def compare() -> Iterator[Comparison]:
    """One matrix, and three one after the other."""
    functions = _FUNCTION.findall((find_package("flashinfer") / _HEADER).read_text("utf-8"))
    assert len(functions) == 4
    with tempfile.TemporaryDirectory() as scratch:
        source, program = Path(scratch) / "places.cpp", Path(scratch) / "places"
        head = "#include <cstdint>\n#define __device__\n#define __host__\n"
        source.write_text(head + "\n".join(functions) + _MAIN, "utf-8")
        subprocess.run(["g++", "-O1", "-o", program, source], check=True)
        for layout, tile in (("128x4", 128), ("8x4", 8)):
            for shape in (*STRADDLING, (9, 8), (256, 8), (383, 17)):
                for batch in (1, 3):
                    words = [program, str(tile), str(batch), *map(str, shape)]
                    done = subprocess.run(words, check=True, capture_output=True, text=True)
                    found = 8 * np.array(done.stdout.split(), np.int64).reshape(batch, -1)
                    found -= 8 * layouts.get_layout(layout).size(shape) * np.arange(batch)[:, None]
                    for places in found:
                        yield from compare_offsets(layout, shape, lambda m, k, p=places: p)
