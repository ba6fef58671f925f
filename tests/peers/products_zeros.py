"""Whether a product that is zero takes part in the alignment of a tensor core's sum: a zero times the largest number, next to one small product.

    python tests/peers/products_zeros.py FILE

The file has for each pair of dtypes, place of the zero and row the sum, and whether it is another one than the small product.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

torch.backends.cuda.matmul.allow_tf32 = True
torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
E4, E5 = torch.float8_e4m3fn, torch.float8_e5m2
#: Where the zero stands, whose partner is the largest number: "one group on" is 40 places from the small product.
PLACES = ("nothing", "zero in a", "zero in b", "one group on")


def multiply_fp8(a: Any, b: Any, *, fast: bool) -> Any:
    """`_scaled_mm` with scales of one."""
    one = torch.ones(1, device="cuda")
    return torch._scaled_mm(a, b.T, scale_a=one, scale_b=one, out_dtype=torch.float32, use_fast_accum=fast)


def list_sums(name: str, multiply: Callable[[Any, Any], Any], dtypes: Any, big: Any, small: Any, k: int = 512) -> list[dict[str, Any]]:
    """The sums of one pair of dtypes. big, small: the largest numbers, and those of the small product."""
    found = []
    for place in PLACES:
        for row in (0, 5):
            a, b = torch.zeros(64, k), torch.zeros(64, k)
            a[row, 1], b[row, 1] = small
            if place == "zero in b":
                a[row, 0] = big[0]
            elif place != "nothing":
                b[row, 40 if place == "one group on" else 0] = big[1]
            total = float(multiply(a.to(dtypes[0]).cuda(), b.to(dtypes[1]).cuda())[row, row])
            found.append({"what": name, "next to it": place, "row": row, "result": total.hex(), "lost": total != small[0] * small[1]})
    return found


def main(path: Path) -> None:
    """Write the sums, and print what is lost."""
    rows: list[dict[str, Any]] = []
    for fast in (True, False):
        multiply = lambda a, b, fast=fast: multiply_fp8(a, b, fast=fast)  # noqa: E731
        rows += list_sums(f"e4m3 x e4m3, fast {fast}", multiply, (E4, E4), (448, 448), (2.0**-6, 2.0**-6))
        rows += list_sums(f"e4m3 x e4m3, fast {fast}, subnormals", multiply, (E4, E4), (448, 448), (2.0**-9, 2.0**-9))
        rows += list_sums(f"e5m2 x e4m3, fast {fast}", multiply, (E5, E4), (57344, 448), (2.0**-16, 2.0**-9))
        rows += list_sums(f"e4m3 x e5m2, fast {fast}", multiply, (E4, E5), (448, 57344), (2.0**-9, 2.0**-16))
    plain = lambda a, b: torch.mm(a, b.T, out_dtype=torch.float32)  # noqa: E731
    rows += list_sums("float16", plain, (torch.float16,) * 2, (32768, 32768), (2.0**-24, 2.0**-3))
    rows += list_sums("bfloat16", plain, (torch.bfloat16,) * 2, (2.0**127, 2.0**127), (2.0**-40, 2.0**-3))
    rows += list_sums("tf32", lambda a, b: a @ b.T, (torch.float32,) * 2, (2.0**127, 2.0**127), (2.0**-40, 2.0**-3))
    path.write_text(json.dumps({"device": torch.cuda.get_device_name(), "torch": torch.__version__, "rows": rows}) + "\n", "ascii")
    print(f"{sum(row['lost'] for row in rows)} of {len(rows)} small products are lost")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
