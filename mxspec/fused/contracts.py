"""Contracts of fused quantizers as data: where an intermediate is rounded, and how exact exp, erf, tanh and rsqrt are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mxspec.enums import StrEnum
from mxspec.fused.functions import FusedFunction, Kind


class Form(StrEnum):
    """Which float32 operations a function consists of, each rounded once."""

    #: x / (1 + exp(-x)); 0.5 x (1 + erf(x / sqrt(2))), and the same with tanh, as PyTorch writes them.
    PLAIN = "plain"
    #: x * (1 / (1 + exp(-x))).
    RECIPROCAL = "reciprocal"
    #: Any of float32, in any order, fused or not: what their errors add up to.
    ANY = "any"


#: `Contract.ulps` of the fastest instructions: exp within 2 + 1.173 |x| units in the last place, as CUDA's `__expf`; tanh within
#: 2^-10.98 of its magnitude, as PTX's `tanh.approx.f32`.
FAST = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """One contract."""

    form: Form = Form.PLAIN
    #: Units in the last place of float32 by which exp, erf or tanh may be off; 0: correctly rounded.
    ulps: int = 0
    #: To what a sigmoid is rounded; the activation, or the normalized row before it is weighted; the last product; the residual sum.
    sigmoid: str = "float32"
    inner: str = "float32"
    product: str = "float32"
    total: str = "float32"
    #: Whether a block's maximum is that of the product before it was rounded.
    amax_unrounded: bool = False

    @property
    def rounds(self) -> dict[str, str]:
        """Step -> dtype, of those that are rounded."""
        return {step: dtype for step in ("sigmoid", "inner", "product", "total") if (dtype := getattr(self, step)) != "float32"}

    @property
    def name(self) -> str:
        """What a target claims: `plain-0ulp`, `any-fast+product-bfloat16+amax-unrounded`."""
        first = f"{self.form}-fast" if self.ulps == FAST else f"{self.form}-{self.ulps}ulp"
        return "+".join([first, *(f"{s}-{d}" for s, d in self.rounds.items()), *["amax-unrounded"] * self.amax_unrounded])

    def describe(self, function: FusedFunction) -> str:
        """In words."""
        is_norm, last = function.kind is Kind.RMSNORM, "product" if function.multiplies else "result"
        words = {"inner": "normalized row" if is_norm else function.kind.value, "product": last, "total": "residual sum"}
        rounded = ", ".join(f"{words.get(s, s)} rounded to {d}" for s, d in self.rounds.items()) or "float32 throughout"
        if self.product != "float32":
            rounded += f", amax of the {'un' * self.amax_unrounded}rounded one"
        if is_norm or function.kind is Kind.HADAMARD:
            return f"{rounded}; any order of operations"
        called = {Kind.GELU: "erf", Kind.GELU_TANH: "tanh"}.get(function.kind, "exp")
        exact = {0: "correctly rounded", FAST: "as the fast instruction"}.get(self.ulps, f"within {self.ulps} ulp")
        forms = {Form.PLAIN: "", Form.RECIPROCAL: ", x times a reciprocal", Form.ANY: ", any order of operations"}
        return f"{rounded}; {called} {exact}{forms[self.form]}"


#: (sigmoid, inner, product) by their first letters.
_PRODUCT = ("fff", "fbf", "ffb", "fbb", "ffh", "fhf", "fhh", "bbf", "bbb", "hhh")
_ALONE, _NORM, _SUM = ("fff", "ffb", "ffh", "bfb"), ("fff", "fbf", "ffb", "fbb", "fhf", "ffh", "fhh"), ("fff", "ffb", "ffh")
_DTYPES = {"f": "float32", "b": "bfloat16", "h": "float16"}
#: From the narrowest to the widest.
_EXACTNESS = (*((form, ulps) for ulps in (0, 1, 2) for form in (Form.PLAIN, Form.RECIPROCAL)), (Form.ANY, 2), (Form.ANY, FAST))


def list_contracts(function: FusedFunction) -> Iterator[Contract]:
    """The contracts that are tried on a function, the one that leaves least open first."""
    kind, has_sigmoid = function.kind, function.kind in (Kind.SILU, Kind.SWIGLU_OAI)
    roundings = {Kind.HADAMARD: _SUM, Kind.RMSNORM: _NORM}.get(kind, _PRODUCT if function.multiplies else _ALONE)
    for form, ulps in ((Form.ANY, 2),) if kind in (Kind.HADAMARD, Kind.RMSNORM) else _EXACTNESS:
        for total in _DTYPES.values() if function.adds else ("float32",):
            for letters in roundings if has_sigmoid or form is not Form.RECIPROCAL else ():
                sigmoid, inner, product = (_DTYPES[letter] for letter in letters)
                # A sigmoid that is rounded is multiplied.
                if sigmoid == "float32" or (has_sigmoid and form is not Form.PLAIN):
                    for unrounded in (False, True)[: 1 + (product != "float32")]:
                        yield Contract(
                            form=form, ulps=ulps, sigmoid=sigmoid, inner=inner, product=product, total=total, amax_unrounded=unrounded
                        )


def get_contract(name: str, function: FusedFunction) -> Contract:
    """The contract of a name. Raises ValueError where it is none of the function's."""
    known = {c.name: c for c in list_contracts(function)}
    if name not in known:
        raise ValueError(f"{name!r} is no contract of {function.name}; some are {', '.join(list(known)[:6])}")
    return known[name]
