"""How products with a few vectors are cut into blocks of threads, by the size of the weights and the number of vectors."""

from __future__ import annotations

from dataclasses import dataclass

#: Teams of a block of threads, which take turns on chunks of columns: outputs depend on their number, so every tuning has it.
TEAMS = 4
#: Columns of a turn of all teams.
TURN = 2 * TEAMS * 128
#: Columns of x of the kernels, each for at most so many vectors.
BATCHES = (8, 16, 32, 48, 64)
#: Vectors of one launch.
MOST_VECTORS = BATCHES[-1]
#: Dynamic shared memory is requested in whole pages: a program for each number of them, not for each K.
PAGE = 1 << 12


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedMemory:
    """Bytes of shared memory that a chip has."""

    #: Of one block of threads at most.
    block: int
    #: Of all blocks of a multiprocessor together, and what the system takes of it for each of them.
    multiprocessor: int
    system: int


#: Compute capability 9.0, where the choices below were measured.
HOPPER = SharedMemory(block=227 << 10, multiprocessor=228 << 10, system=1 << 10)


@dataclass(frozen=True, slots=True, kw_only=True)
class GemvTuning:
    """Speed choices of `gemv` and `gemv_affine`."""

    #: Columns of x, one of BATCHES.
    batch: int
    #: Warps of a team.
    warps: int
    #: Blocks that a multiprocessor is to hold at once.
    blocks_of_sm: int
    #: Factors travel with their codes.
    copy: bool
    #: All of x lies in shared memory; otherwise two chunks of each team.
    whole: bool = False

    @property
    def rows(self) -> int:
        """Rows of W that a block of threads takes."""
        return 32 * self.warps

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return 32 * self.warps * TEAMS

    def count_shared(self, vectors: int, columns: int, factors: int) -> int:
        """Bytes of shared memory: codes of two chunks for each team, twice a row's `factors` of both, and x; in the end the teams'
        sums."""
        loop = 2 * 4 * 16 * self.threads
        if self.copy:
            loop += 2 * TEAMS * self.rows * factors
        if self.whole:
            loop += vectors * (-(-columns // TURN) * TURN // 8 + 4) * 16
        else:
            loop += 2 * TEAMS * self.batch * 20 * 16
        return max(loop, TEAMS * self.rows * (self.batch + 1) * 4)

    def defines(self) -> dict[str, object]:
        """As the sources have them."""
        return {
            "MX_BATCH": self.batch, "MX_TEAMS": TEAMS, "MX_WARPS": self.warps, "MX_BLOCKS_OF_SM": self.blocks_of_sm,
            "MX_COPY": self.copy, "MX_WHOLE": self.whole,
        }  # fmt: skip


#: Kinds of weights that are tuned apart: whose factor takes next to no work, whose is a conversion, and four-bit affine ones.
WEIGHTS = ("mxfp4", "nvfp4", "affine")


@dataclass(frozen=True, slots=True)
class _Choice:
    """A tuning, and where it is the fastest that was measured (reports/gpu/README.md)."""

    weights: tuple[str, ...]
    #: At most so many vectors, and rows and columns of W.
    vectors: int
    rows: int
    warps: int
    blocks_of_sm: int
    whole: bool = False
    columns: int = 1 << 31

    def make(self, *, copy: bool) -> GemvTuning:
        """The tuning."""
        batch = min(b for b in BATCHES if b >= self.vectors)
        return GemvTuning(batch=batch, warps=self.warps, blocks_of_sm=self.blocks_of_sm, copy=copy, whole=self.whole)


_ALL, _ANY = WEIGHTS, 1 << 31
_BLOCKS, _NARROW = WEIGHTS[:2], 1 << 13

#: In order: the first that holds for a product, and whose shared memory the chip has, is taken. More warps read x less often; fewer
#: make more blocks, for weights of few rows.
_CHOICES = (
    # All of x in shared memory, where it fits.
    _Choice(_ALL, 4, _NARROW, 1, 4, True),
    _Choice(_ALL, 4, _NARROW, 2, 2, True),
    _Choice(_BLOCKS, 4, _ANY, 2, 2, True),
    _Choice(("affine",), 2, _ANY, 1, 4, True, _NARROW),
    _Choice(("affine",), 2, _ANY, 4, 1, True),
    # Two chunks of it.
    _Choice(_ALL, 8, 1 << 12, 1, 4),
    _Choice(_ALL, 8, _ANY, 2, 2),
    _Choice(_ALL, 16, 1 << 12, 1, 3),
    _Choice(("mxfp4",), 16, _ANY, 2, 2),
    _Choice(_ALL, 16, _NARROW, 2, 2),
    _Choice(_ALL, 16, _ANY, 4, 1),
    _Choice(_ALL, 32, _NARROW, 2, 1),
    _Choice(_ALL, 32, _ANY, 4, 1),
    _Choice(_ALL, 48, _NARROW, 2, 1),
    _Choice(_BLOCKS, 48, _ANY, 4, 1),
    _Choice(_ALL, 48, _ANY, 2, 1),
    _Choice(_ALL, 64, _ANY, 2, 1),
)
#: Where factors cannot travel with their codes.
_APART = tuple(_Choice(_ALL, batch, _ANY, 2, 1) for batch in BATCHES)


@dataclass(frozen=True, slots=True, kw_only=True)
class GemvPlan:
    """How a product is launched."""

    tuning: GemvTuning
    #: Bytes of shared memory of a block.
    shared: int
    #: Vectors of a launch; a product with more takes several.
    vectors: int


def _find_plan(weights: str, shape: tuple[int, int], vectors: int, *, copy: bool, factors: int, memory: SharedMemory) -> GemvPlan | None:
    rows, columns = shape
    for choice in _CHOICES if copy else _APART:
        if weights in choice.weights and vectors <= choice.vectors and rows <= choice.rows and columns <= choice.columns:
            tuning = choice.make(copy=copy)
            shared = -(-tuning.count_shared(vectors, columns, factors) // PAGE) * PAGE
            # x lies whole in shared memory for speed, so all blocks that a multiprocessor is to hold must have room for it.
            most = memory.multiprocessor // tuning.blocks_of_sm - memory.system if tuning.whole else memory.block
            if shared <= most:
                return GemvPlan(tuning=tuning, shared=shared, vectors=vectors)
    return None


def plan_gemv(weights: str, shape: tuple[int, int], vectors: int, *, copy: bool, factors: int, memory: SharedMemory = HOPPER) -> GemvPlan:
    """The choices for weights [N, K] of a kind and a number of vectors: in one launch, or in as few as the chip's shared memory allows.

    copy: the factors lie so that they can travel; factors: bytes of a row's in 256 columns.
    """
    for most in (vectors, *(batch for batch in reversed(BATCHES) if batch < vectors)):
        plan = _find_plan(weights, shape, most, copy=copy, factors=factors, memory=memory)
        if plan is not None:
            return plan
    raise ValueError(
        f"a block of threads has {memory.block} bytes of shared memory on this GPU, too few for a product with weights where they lie; "
        "dequantize and multiply"
    )


def list_gemv_tunings(weights: str, *, copies: tuple[bool, ...] = (False, True)) -> list[GemvTuning]:
    """The choices for weights of a kind, of any size and with any number of vectors."""
    found = [c.make(copy=copy) for copy in copies for c in (_CHOICES if copy else _APART) if weights in c.weights]
    return list(dict.fromkeys(found))
