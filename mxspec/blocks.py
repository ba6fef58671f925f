"""Block quantization on arrays: `quantize`, `dequantize`."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from mxspec import elements, fast, reals, tensorscale
from mxspec.arrays import ARRAYS, flush_to_zero
from mxspec.blocktensor import BlockTensor
from mxspec.dequantizing import check_axis, dequantize_arrays, dequantize_rows
from mxspec.elements import Codes, Float32s, ScaleCodes, as_float32
from mxspec.expressions import AMAX, Op, evaluate, leaves
from mxspec.formats import BlockFormat, BlockName, ElementFormat, Extent, get_block
from mxspec.inputs import check_flag
from mxspec.profiles import get_profile
from mxspec.profiles.schema import AmaxNan, ElementRule, ErrorNorm, ErrorOrder, Profile, QuantizationSteps, ScaleRule
from mxspec.rounding import MAGNITUDE_RULES, NanPolicy, Overflow, Rounding, ZeroPolicy
from mxspec.scales import encode_scale, log2f_floor
from mxspec.tensorscale import TensorScale, bind_arrays, check_tensor_scale

__all__ = ["BlockTensor", "dequantize", "element_table", "encode_elements", "find_amax", "prepare_rows", "quantize", "quantize_rows"]

_CHUNK_BLOCKS = 1 << 13


@lru_cache(maxsize=128)
def element_table(element: ElementFormat, rule: ElementRule) -> npt.NDArray[np.uint8]:
    """The code of every table index under an element rule; NaN lanes are decided elsewhere."""
    placeholder = NanPolicy.NAN if element.nan_code is not None else NanPolicy.MAX_POSITIVE
    table = elements.encode_table(element, rule.rounding, rule.overflow, placeholder).copy()
    half = table.size // 2
    if element.twos_complement and rule.int8_lowest == -128:
        # Magnitude 128, which only negative codes have: from its step on, infinity included.
        last_step = elements._step_indices(element, MAGNITUDE_RULES[rule.rounding][1])[-1]
        table[half + last_step : half + elements._INFINITY_INDEX + 1] = element.sign_bit
    if not element.twos_complement:
        negative_zero = element.join(1, 0)
        if rule.zero is ZeroPolicy.PLUS:
            table[table == negative_zero] = 0
        elif rule.zero is ZeroPolicy.MINUS_UNLESS_POSITIVE:
            table[0] = negative_zero
        elif rule.zero is ZeroPolicy.PLUS_UNLESS_UNDERFLOW:
            table[half] = 0
    table.flags.writeable = False
    return table


def encode_elements(
    scaled: npt.NDArray[Any], x: Float32s, scale_is_nan: npt.NDArray[np.bool_], rule: ElementRule, element: ElementFormat
) -> Codes:
    """Codes of scaled elements (float32, or float64 that is exact); x: the elements before scaling."""
    if rule.unbounded_fields:
        return _encode_unbounded_fields(scaled)
    if rule.add_half_floor_f32:
        codes = _encode_add_half_floor(scaled, rule, element)
    else:
        if rule.binade_log2f:
            scaled = _floor_in_log2f_binade(scaled, element)
        index = elements.exact_table_index(scaled) if scaled.dtype == np.float64 else elements.table_index(scaled)
        codes = element_table(element, rule)[index]
    return _encode_lost(codes, scaled, x, scale_is_nan, rule, element)


def _encode_lost(
    codes: Codes, scaled: npt.NDArray[Any], x: Float32s, scale_is_nan: npt.NDArray[np.bool_], rule: ElementRule, element: ElementFormat
) -> Codes:
    """The codes, with those of lanes that are no number, and of blocks under a NaN scale, as the rule says."""
    lost = np.isnan(scaled)
    if lost.any():
        policy = rule.nan if element.nan_code is None else rule.nan_own
        positive, negative = reals.nan_codes(element, policy)
        sign = np.where(np.isnan(x), np.signbit(x), np.where(scale_is_nan, False, bool(rule.invalid_sign)))
        codes = np.where(lost, np.where(sign, negative, positive), codes).astype(np.uint8)
    if rule.under_nan_scale is not None:
        codes = np.where(scale_is_nan, np.uint8(rule.under_nan_scale), codes)
    return codes


def _encode_add_half_floor(scaled: npt.NDArray[Any], rule: ElementRule, element: ElementFormat) -> Codes:
    """floor(steps + 1/2), the sum in the rule's domain."""
    down = elements.encode_table(element, Rounding.RTZ, Overflow.SATURATE, elements.default_nan_policy(element))
    index = elements.exact_table_index(scaled) if scaled.dtype == np.float64 else elements.table_index(scaled)
    low = down[index]
    gap = elements._gap_above(element)[low]
    with np.errstate(all="ignore"):
        steps = (np.abs(scaled.astype(np.float64)) / gap).astype(np.float32)
        half = np.asarray(np.float32(0.5))
        total = np.floor(ARRAYS.apply(Op.ADD, rule.half_floor_domain, (steps, half))).astype(np.float64)
        if rule.rounding is Rounding.RNE:
            total -= (steps - np.float32(0.5)) % np.float32(2) == 0
        base = np.abs(elements.decode_table(element).astype(np.float64)[low]) / gap
        # Far beyond the largest value the count would pass int64.
        up = np.clip(np.nan_to_num(total - base, nan=0), -1, element.code_count)
        magnitude = elements._magnitude_codes(element)[low] + up.astype(np.int64)
    magnitude = np.clip(magnitude, 0, element.max_code)
    codes = elements._joined_codes(element)[np.signbit(scaled).astype(np.intp), magnitude]
    if rule.zero is ZeroPolicy.PLUS:
        codes = np.where(magnitude == 0, 0, codes)
    elif rule.zero is ZeroPolicy.PLUS_UNLESS_UNDERFLOW:
        codes = np.where(scaled == 0, 0, codes)
    result: Codes = codes.astype(np.uint8)
    return result


def _encode_unbounded_fields(scaled: npt.NDArray[Any]) -> Codes:
    """Codes of `ElementRule.unbounded_fields`: bfloat16 fields, ORed and packed two per byte."""
    magnitude = np.abs(scaled.astype(np.float64))
    finite = np.isfinite(magnitude)
    magnitude = np.where(finite, magnitude, 0)
    step = np.where(magnitude < 2, 0.5, np.where(magnitude < 4, 1.0, 2.0))
    fraction, exponent = np.frexp(np.rint(magnitude / step) * step)
    first_bit = (exponent == 0) | (fraction >= 0.75)
    sign = np.signbit(scaled).astype(np.int64) << 3
    fields = np.where(fraction == 0, sign, sign | (exponent.astype(np.int64) << 1) | first_bit) & 0xFF
    fields = np.where(finite, fields, 0x0B)  # bfloat16 FFFF
    codes = np.empty(fields.shape, np.uint8)
    codes[..., 0::2] = fields[..., 0::2] & 0xF
    codes[..., 1::2] = (fields[..., 1::2] | fields[..., 0::2] >> 4) & 0xF
    return codes


def _floor_in_log2f_binade(scaled: npt.NDArray[Any], element: ElementFormat) -> Float32s:
    """float32 values cut toward zero to multiples of the step of the binade that a float32 log2 puts them in.

    Those below one step are left for the encoder to cut, which keeps the sign of an underflow.
    """
    magnitude = np.abs(scaled).astype(np.float64)
    ordinary = np.isfinite(magnitude) & (magnitude > 0)
    exponent = np.maximum(log2f_floor(np.where(ordinary, magnitude, 1)), 1 - element.bias)
    gap = np.ldexp(1.0, exponent - element.mantissa_bits)
    steps = np.floor(np.where(ordinary, magnitude, 0) / gap)
    cut = np.where(steps > 0, steps * gap, magnitude)
    result: Float32s = np.copysign(cut, scaled).astype(np.float32)
    return result


def find_amax(blocks: Float32s, nan: AmaxNan) -> Float32s:
    """The largest magnitude along the last axis, which is kept with length 1."""
    magnitudes = np.abs(blocks)
    lanes = np.isnan(magnitudes)
    if nan is not AmaxNan.PROPAGATE:
        magnitudes = np.where(lanes, np.float32(0), magnitudes)
    result: Float32s = magnitudes.max(axis=-1, keepdims=True)
    if nan in (AmaxNan.SKIP_UNLESS_ALL, AmaxNan.SKIP_UNLESS_ODD):
        needed = lanes if nan is AmaxNan.SKIP_UNLESS_ALL else lanes[..., 1::2]
        result = np.where(needed.all(axis=-1, keepdims=True), np.float32(np.nan), result)
    return result


def _apply_rule(
    x: Float32s, amax: Float32s, rule: ScaleRule, steps: QuantizationSteps, fmt: BlockFormat, bindings: dict[str, Any],
    scales: ScaleCodes | None = None,
) -> tuple[ScaleCodes, Codes]:  # fmt: skip
    if scales is None:
        scales = _find_scales(amax, rule, fmt, bindings)
    sf = elements.decode_codes(scales, fmt.scale)
    scaled = np.broadcast_to(evaluate(steps.scaled, {**bindings, "amax": amax, "sf": sf, "x": x}, ARRAYS), x.shape)
    if steps.element.error is not None:
        known = {**bindings, "amax": amax, "sf": sf, "x": x, "scaled": scaled}
        return scales, _search_codes(known, steps.element, fmt.element, x.shape)
    return scales, encode_elements(np.ascontiguousarray(scaled), x, np.isnan(sf), steps.element, fmt.element)


def _find_scales(amax: Float32s, rule: ScaleRule, fmt: BlockFormat, bindings: dict[str, Any]) -> ScaleCodes:
    value = np.broadcast_to(evaluate(rule.value, {**bindings, "amax": amax}, ARRAYS), amax.shape)
    return encode_scale(value, rule, fmt.scale, fmt.element)


def _search_codes(bindings: dict[str, Any], rule: ElementRule, element: ElementFormat, shape: tuple[int, ...]) -> Codes:
    """The first code of the least error; NaN errors never replace an earlier code."""
    assert rule.error is not None
    values = elements.decode_table(element)
    codes = np.zeros(shape, np.uint8)
    least = evaluate(rule.error, {**bindings, "q": np.asarray(values[0])}, ARRAYS)
    for code in range(1, element.code_count):
        error = evaluate(rule.error, {**bindings, "q": np.asarray(values[code])}, ARRAYS)
        with np.errstate(invalid="ignore"):
            less = error < least
        codes = np.where(less, np.uint8(code), codes)
        least = np.where(less, error, least)
    if rule.under_nan_scale is not None:
        codes = np.where(np.isnan(bindings["sf"]), np.uint8(rule.under_nan_scale), codes)
    return codes


def _total_error(
    x: Float32s, scales: ScaleCodes, codes: Codes, steps: QuantizationSteps, fmt: BlockFormat, bindings: dict[str, Any]
) -> Float32s:
    assert steps.alternative is not None
    y = dequantize_rows(codes, scales, steps, fmt, bindings)
    q, sf = elements.decode_table(fmt.element)[codes], elements.decode_codes(scales, fmt.scale)
    lanes = evaluate(steps.alternative.error, {**bindings, "x": x, "q": q, "sf": sf, "y": y}, ARRAYS)
    rule = steps.alternative
    combine = np.maximum if rule.norm is ErrorNorm.MAXIMUM else np.add
    lanes = np.broadcast_to(lanes, x.shape).astype(np.float32)
    with np.errstate(all="ignore"):
        if rule.order is ErrorOrder.HALVES:
            lanes = combine(*np.split(lanes, 2, axis=-1))
        total = np.zeros(x.shape[:-1], np.float32)
        for lane in range(lanes.shape[-1]):
            total = combine(total, lanes[..., lane])
    return ARRAYS.apply(Op.ROUND, rule.total, (total,))


def prepare_rows(x: Float32s, profile: Profile, steps: QuantizationSteps, bindings: dict[str, Any]) -> Float32s:
    """The elements as the profile's stages see them: flushed and normalized where it does so."""
    if profile.flush_inputs:
        x = flush_to_zero(x)
    if steps.normalize is not None:
        x = np.ascontiguousarray(evaluate(steps.normalize, {**bindings, "x": x}, ARRAYS))
    return x


def quantize_rows(
    x: Float32s,
    fmt: BlockFormat,
    profile: Profile,
    steps: QuantizationSteps,
    bindings: dict[str, Any],
    amax: Float32s | None = None,
    scales: ScaleCodes | None = None,
) -> tuple[ScaleCodes, Codes]:
    """Scales [n, 1] and codes [n, k] of n blocks [n, k], by the profile's expressions.

    amax: largest magnitudes [n, 1] where they are not the blocks' own. scales: codes [n, 1] that are given.
    """
    bindings = {**bindings, "M": np.asarray(np.float32(float(fmt.element.max_value)))}
    x = prepare_rows(x, profile, steps, bindings)
    largest = find_amax(x, profile.amax_nan) if amax is None else amax
    chosen = scales is not None or steps.alternative is None
    scales, codes = _apply_rule(x, largest, steps.scale, steps, fmt, bindings, scales)
    if chosen:
        return scales, codes
    assert steps.alternative is not None
    scales_2, codes_2 = _apply_rule(x, largest, steps.alternative.scale, steps, fmt, bindings)
    with np.errstate(invalid="ignore"):
        better = (_total_error(x, scales_2, codes_2, steps, fmt, bindings) < _total_error(x, scales, codes, steps, fmt, bindings))[
            ..., None
        ]
    return np.where(better, scales_2, scales), np.where(better, codes_2, codes)


def _check_block(block: tuple[int, int] | None, fmt: BlockFormat, ndim: int) -> tuple[int, int]:
    shape = fmt.shapes[0] if block is None else block
    if not isinstance(shape, tuple) or shape not in fmt.shapes:
        text = f"block = {shape} is not a block shape of {fmt.name}; allowed are {', '.join(map(str, fmt.shapes))}"
        raise ValueError(text) if isinstance(shape, tuple) else TypeError(f"{text}, as tuples")
    rows, k = shape
    if rows > 1 and ndim < 2:
        raise ValueError(f"block = {shape} needs two axes, x has {ndim}")
    return rows, k


def _pad(x: Float32s, axis: int, multiple: int, fmt: BlockFormat, *, allowed: bool) -> Float32s:
    length = x.shape[axis]
    missing = -length % multiple
    if missing == 0:
        return x
    if not allowed:
        raise ValueError(
            f"k = {length} is not a multiple of the {multiple}-element block of {fmt.name}; "
            f"pad axis {axis} to {length + missing} or pass pad=True"
        )
    widths = [(0, missing if a == axis else 0) for a in range(x.ndim)]
    return np.pad(x, widths)


def _tile_amax(x: Float32s, rows: int, k: int, nan: AmaxNan) -> Float32s:
    """Largest magnitudes of tiles of so many rows and k columns of x [..., height, width], repeated for each row:
    [..., height, width / k, 1]."""
    *batch, height, width = x.shape
    per_row = find_amax(x.reshape(*batch, height, width // k, k), nan)
    tiles = per_row.reshape(*batch, height // rows, rows, width // k, 1).max(axis=-3, keepdims=True)
    return np.broadcast_to(tiles, (*batch, height // rows, rows, width // k, 1)).reshape(*batch, height, width // k, 1)


def quantize(
    x: object,
    fmt: BlockName | str | BlockFormat,
    *,
    profile: str | Profile | None = None,
    axis: int = -1,
    block: tuple[int, int] | None = None,
    tensor_scale: TensorScale | Literal["auto"] | None = None,
    scales: object = None,
    convert: bool = False,
    pad: bool = False,
    random_bits: object = None,
    sr_bits: int = 32,
) -> BlockTensor:
    """Quantize a tensor by a profile, bit for bit.

    Args:
        x: float32, float16 or bfloat16, or float64 whose values are exactly float32; at least one dimension, any strides. An
            array, or a tensor of torch or CuPy, of which the numbers are copied from its device without a gradient.
        fmt: A block format or its name, such as "mxfp4".
        profile: A profile or its name (`get_profile`); default: `default_profile`, that is `mx-floor`, for nvfp4 `nvfp4-te`.
        axis: The axis along which blocks lie.
            Where a whole row has one scale, that is the row; where a whole tensor has one, the axis along which its rows lie.
        block: The shape of a block: (1, k), or (16, 16) for nvfp4. The rows of a square block run along the axis before
            `axis`, or after it if `axis` is the first.
        tensor_scale: None to quantize without one, a `TensorScale`, or "auto" for the one that the profile computes from x.
        scales: uint8 codes (of float32 scales float32, or uint32 bits) of block scales that are given (static), in the shape of `BlockTensor.scales`; None for those that
            the profile finds. Elements are rounded under them as the profile rounds under its own: by OCP MX v1.0 to the
            nearest value of x / scale, ties to even, beyond the largest value to it.
        convert: Allow a tensor scale of another kind than the profile's native one; it is converted and the result records it.
        pad: Fill a ragged tail with zeros instead of raising ValueError.
        random_bits: Unsigned integers in the shape of x. Elements are then rounded stochastically (`Rounding.SR`) instead of
            by the profile's rounding mode.
        sr_bits: How many low bits of each of these integers are used, 1 to 32 (`encode`).

    Returns:
        Codes and scales, with what is needed to interpret them.

    Raises:
        TypeError: x has another dtype, or an argument another type.
        ValueError: x, axis, block, profile, scales and tensor scale do not fit together; a ragged tail without `pad`; given
            scales where the profile looks at a block's maximum to scale its elements. The message says what was given, what is allowed and what to do.

    Source: the profile's `source`; for the normative MX profiles OCP MX v1.0 section 6.3.
    """
    fmt, profile = get_block(fmt), get_profile(profile, fmt)
    if random_bits is None and sr_bits != 32:
        raise ValueError(f"sr_bits = {sr_bits!r} without random_bits; elements are rounded stochastically only with random_bits")
    pad, convert = check_flag(pad, "pad"), check_flag(convert, "convert")
    values = as_float32(x)
    axis = check_axis(axis, values.ndim, "x")
    fmt = fmt.sized(values.shape[axis])
    rows, k = _check_block(block, fmt, values.ndim)
    logical = values.shape
    scale = tensorscale.tensor_scale(values, fmt, profile) if isinstance(tensor_scale, str) and tensor_scale == "auto" else tensor_scale
    if scale is not None:
        scale = check_tensor_scale(scale, profile, convert=convert)
    steps = profile.steps(with_tensor_scale=scale is not None)
    if scales is not None and AMAX.name in leaves(steps.scaled):
        raise ValueError(
            f"profile {profile.id} looks at a block's maximum, not at its stored scale alone, when it scales elements, so that "
            "scales cannot be given; choose another profile"
        )
    if rows > 1 and steps.alternative is not None and scales is None:
        raise ValueError(
            f"profile {profile.id} chooses between two scales, for a tile of {rows} x {k} by the sum of its rows' errors, which is "
            "not modelled; quantize without block"
        )
    if random_bits is not None and ((steps.alternative is not None and scales is None) or steps.element.error is not None):
        raise ValueError(
            f"profile {profile.id} chooses between answers by their errors, which is not modelled for stochastic rounding; "
            "quantize without random_bits"
        )
    bindings = {} if scale is None else bind_arrays(profile, scale)
    values = _pad(values, axis, k, fmt, allowed=pad)
    row_axis = axis - 1 if axis else 1
    if rows > 1:
        values = _pad(values, row_axis, rows, fmt, allowed=pad)
    order = [a for a in range(values.ndim) if a not in ((axis, row_axis) if rows > 1 else (axis,))]
    order += [row_axis, axis] if rows > 1 else [axis]
    moved = np.ascontiguousarray(values.transpose(order))
    amax = None if rows == 1 else _tile_amax(moved, rows, k, profile.amax_nan).reshape(-1, 1)
    flat = moved.reshape(-1, k)
    if fmt.extent is Extent.TENSOR and flat.size:
        amax = np.broadcast_to(find_amax(flat.reshape(1, -1), profile.amax_nan), (len(flat), 1))
    codes = np.empty(flat.shape, np.uint8)
    given = None if scales is None else _moved_scales(scales, fmt, values.shape, axis, rows, order)
    found = np.empty((flat.shape[0], 1), elements.code_dtype(fmt.scale))
    if random_bits is not None:
        words = _moved_words(random_bits, logical, values.shape, order).reshape(-1, k)
        _quantize_stochastic(flat, fmt, profile, steps, bindings, amax, words, sr_bits, given, found, codes)
    else:
        left: npt.NDArray[np.intp] | None = None
        if amax is None and given is None:
            table = element_table(fmt.element, steps.element)
            left = fast.quantize(flat, fmt, profile, steps, bindings, table, found, codes)
        for start in range(0, flat.shape[0] if left is None else left.size, _CHUNK_BLOCKS):
            part = slice(start, start + _CHUNK_BLOCKS)
            chosen = part if left is None else left[part]
            found[chosen], codes[chosen] = quantize_rows(
                flat[chosen], fmt, profile, steps, bindings, None if amax is None else amax[chosen],
                None if given is None else given[chosen],
            )  # fmt: skip
    back = np.argsort(order)
    return BlockTensor(
        format=fmt,
        profile=profile,
        codes=codes.reshape(moved.shape).transpose(back),
        scales=found.reshape(*moved.shape[:-1], moved.shape[-1] // k).transpose(back),
        tensor_scale=scale,
        shape=logical,
        axis=axis,
    )


def _moved_scales(scales: object, fmt: BlockFormat, padded: tuple[int, ...], axis: int, rows: int, order: list[int]) -> ScaleCodes:
    """Given scale codes [n, 1], one for each row of a block."""
    codes = elements.check_codes(scales, fmt.scale, name="scales")
    expected = tuple(n // fmt.k if a == axis else n for a, n in enumerate(padded))
    if codes.shape != expected:
        raise ValueError(
            f"scales have shape {codes.shape}; x, in whole blocks of shape {padded}, needs {expected}: one for each block of {fmt.k} "
            f"along axis {axis}"
        )
    moved = np.ascontiguousarray(codes.transpose(order))
    if fmt.extent is Extent.TENSOR and (moved != moved.reshape(-1)[:1]).any():
        raise ValueError(f"scales differ within a tensor of {fmt.name}, which has one; repeat it for each row")
    tiles = moved.reshape(-1, rows, moved.shape[-1]) if moved.size else moved
    if rows > 1 and (tiles != tiles[:, :1]).any():
        raise ValueError(f"scales differ within a tile of {rows} rows, which has one; repeat it in each row of the tile")
    return moved.reshape(-1, 1)


def _moved_words(random_bits: object, logical: tuple[int, ...], padded: tuple[int, ...], order: list[int]) -> npt.NDArray[Any]:
    words = elements.as_words(random_bits)
    if words.shape != logical:
        raise ValueError(f"random_bits has shape {words.shape}, x has {logical}; pass one word for each element")
    full = np.zeros(padded, words.dtype)
    full[tuple(slice(0, n) for n in logical)] = words
    return np.ascontiguousarray(full.transpose(order))


def _quantize_stochastic(
    x: Float32s,
    fmt: BlockFormat,
    profile: Profile,
    steps: QuantizationSteps,
    bindings: dict[str, Any],
    amax: Float32s | None,
    words: npt.NDArray[Any],
    sr_bits: int,
    given: ScaleCodes | None,
    scales: ScaleCodes,
    codes: Codes,
) -> None:
    """Scales by the profile or given, elements by the integer rule of stochastic rounding on the profile's scaled value."""
    bindings = {**bindings, "M": np.asarray(np.float32(float(fmt.element.max_value)))}
    x = prepare_rows(x, profile, steps, bindings)
    largest = find_amax(x, profile.amax_nan) if amax is None else amax
    scales[...] = _find_scales(largest, steps.scale, fmt, bindings) if given is None else given
    sf = elements.decode_codes(scales, fmt.scale)
    scaled = evaluate(steps.scaled, {**bindings, "amax": largest, "sf": sf, "x": x}, ARRAYS)
    scaled = np.broadcast_to(scaled, x.shape)
    policy = elements.default_nan_policy(fmt.element)
    rounded = elements._encode_stochastic(scaled, fmt.element, Overflow.SATURATE, policy, words, sr_bits)
    codes[...] = _encode_lost(rounded, scaled, x, np.isnan(sf), steps.element, fmt.element)


def dequantize(
    codes: object,
    scales: object = None,
    fmt: BlockName | str | BlockFormat | None = None,
    *,
    profile: str | Profile | None = None,
    axis: int = -1,
    tensor_scale: TensorScale | None = None,
    convert: bool = False,
    dtype: object = np.float32,
) -> npt.NDArray[Any]:
    """The values of a quantized tensor, by a profile's arithmetic.

    Products that the profile leaves exact are rounded once to the output dtype, to nearest even. A NaN is the canonical
    quiet one: 7fc00000 in float32.

    Args:
        codes: uint8, one code in the low bits of each byte; an array, or a tensor of torch or CuPy. Or a `BlockTensor`, which
            brings everything else but `dtype`.
        scales: uint8 scale bytes (float32 scales, or their uint32 bits), the shape of `codes` with `axis` divided by k.
        fmt: A block format or its name.
        profile: A profile or its name; default: `default_profile` of the format.
        axis: The axis along which blocks lie.
        tensor_scale: The tensor scale with which the codes were made; None if there was none.
        convert: Allow a tensor scale of another kind than the profile's native one.
        dtype: float32, float16 or bfloat16, of NumPy (`ml_dtypes.bfloat16`) or of torch.

    Returns:
        An array of `dtype` in the shape of `codes`, of a `BlockTensor` in its logical shape; for a dtype of torch a
        `torch.Tensor` on the CPU.

    Raises:
        TypeError: Codes or scales are not uint8, or the output dtype is another one.
        ValueError: A code has bits beyond the width of the format, or shapes do not match.

    Source: the profile's `source`; by OCP MX v1.0 a value is its element times its scale.
    """
    if isinstance(codes, BlockTensor):
        if any(a is not None for a in (scales, fmt, profile, tensor_scale)) or axis != -1:
            raise TypeError("a BlockTensor brings its scales, format, profile, axis and tensor scale; pass nothing else but dtype")
        return codes.dequantize(dtype)
    if scales is None:
        raise TypeError("scales are missing; call dequantize(codes, scales, fmt), or dequantize(t) for a BlockTensor t")
    return dequantize_arrays(codes, scales, fmt, profile=profile, axis=axis, tensor_scale=tensor_scale, convert=convert, dtype=dtype)
