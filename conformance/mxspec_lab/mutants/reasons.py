"""Why changes of the model's source survive the vectors.

Two witnesses speak of a survivor. What differs from the unchanged model on none of the questions of `differences.py` is
called equivalent, and the place in the source says why that is no surprise. What does differ there, or is not asked there
either, was not asked of targets, for one of the reasons below, or is a gap.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from mxspec_lab.mutants.source import Change

EQUIVALENT = "equivalent"
BEYOND = "beyond the interface"
GAP = "gap"

#: (module, function, reason): what neither targets nor the second witness ask for.
_NOT_ASKED: tuple[tuple[str, str, str], ...] = (
    (
        "blocks",
        "_quantize_stochastic|_exactly_float32|_moved_words",
        "blocks are not asked for with random bits; the model's own tests hold it",
    ),
    # Where two modules are named, reports that are committed still know the first.
    ("blocks", "BlockTensor.*", "the model's own container; its own tests hold it"),
    ("stochastic", "unpack_random_words", "how Transformer Engine packs its words is not asked; the model's own tests hold it"),
    ("stochastic", "encode_te_stochastic_exact", "the definition beside the arrays; the model's own tests hold it"),
    ("expressions", "*.__str__", "how an expression is printed"),
    ("tensorscale", "TensorScale.__str__", "how a tensor scale is printed"),
    ("elements", "name_first", "the words of a refusal"),
)

#: (module, function, reason): why a change there may change no answer; the first that fits speaks.
_EQUIVALENT: tuple[tuple[str, str, str], ...] = (
    ("fast", "_power_scale_is_float32", "decides whether the tuned path may be taken; the other path answers alike"),
    ("fast", "_find_scale_table", "decides whether a table serves; the expression answers alike"),
    ("fast", "_split_scaled", "decides whether the tuned path may be taken; the other path answers alike"),
    ("fast", "_is_unusual|_Plan.find_scales", "sends more blocks, or such as the tuned path gets right, past the other path"),
    ("fast", "_tabulate_pairs", "the table of pairs: not built below 262,144 codes a call, or no entry changes"),
    ("fast", "*", "speed alone: chunks, threads, buffers and which path does the work"),
    ("scales", "*log2bf16*", "no bound moves past a number of bfloat16"),
    ("scales", "_log2f_middle_thresholds", "no bound moves past a float32 number that a profile's log2 is asked for"),
    ("scales", "*threshold*", "more digits than the bounds need, or a bound that moves past no float32 number"),
    ("scales", "_float32_bounds", "more digits than the bounds need, or a bound that moves past no float32 number"),
    ("scales", "spacing_near", "no bound moves past a float32 number"),
    ("scales", "encode_scale", "replaces a number that the special cases overwrite"),
    ("elements", "round_to*", "NumPy's own rounding does the same, or NaN payloads are canonical before"),
    ("elements", "_index_of", "a check of what never happens"),
    ("elements", "encode_table", "an entry that no index reaches, or that is overwritten"),
    ("elements", "check_*|as_float32", "refusals: the answers to legal input stay"),
    ("arrays", "_select.select", "of equal operands either is returned; or NaN does not reach the operation in any profile"),
    ("arrays", "ceil_pow2", "zeros, infinities and NaN come out of frexp and ldexp as they went in"),
    ("arrays", "*", "the one number that moves is no result of a profile's arithmetic"),
    ("blocks", "_check_*", "refusals: the answers to legal input stay"),
    ("blocks", "_encode_add_half_floor", "replaces a number that another step overwrites, or that no profile reaches"),
    ("blocks", "_encode_unbounded_fields", "replaces a number that another step overwrites, or one of two equal formulas"),
    ("blocks", "find_amax", "one of two spellings of the same reduction, or a rule that no profile of real stacks reaches"),
    ("blocks", "quantize|dequantize", "one of two names of the same axis, or the size of a chunk"),
    ("dequantizing", "dequantize_arrays", "one of two names of the same axis, or the size of a chunk"),
    ("dequantizing", "check_axis", "refusals: the answers to legal input stay"),
    ("stochastic", "*", "what is rounded otherwise lies between two numbers of the grid to which the sum is cut"),
    ("scales", "_log2f_rounds_up|scale_exponents", "no bound moves past a float32 number that a profile's log2 is asked for"),
    ("scales", "encode_ggml_ue4m3", "the cast saturates there by itself, or the number is overwritten"),
    ("scales", "_encode_directly", "a scale's value is clamped before, or its format has no infinity"),
    ("elements", "encode", "the check of a policy that refuses NaN, which nothing asks for"),
    ("elements", "_magnitudes", "the check of negative numbers, which callers switch off"),
    ("elements", "_encode_stochastic", "replaces a number that another step overwrites"),
    ("blocks", "_total_error", "one of two spellings of the same reduction"),
    ("blocks", "element_table", "an entry that no index reaches, or a cache's size"),
    ("blocks", "_floor_in_log2f_binade", "replaces a number that another step overwrites"),
    ("blocks", "_search_codes", "NaN does not reach the comparison in any profile"),
    ("elements", "*table*", "a bit that is set either way, a cache's size, or whether an array is writeable"),
    ("elements", "_joined_codes", "a cache's size"),
    ("elements", "_step_indices", "no magnitude of a format is the largest float32"),
    ("tensorscale", "*", "refusals and conversions that are not asked for; the answers to legal input stay"),
    ("profiles.normative", "*", "the encoder saturates there by itself, or both branches give zero"),
    ("*", "", "a cache's size, a default that callers pass, or a constant that is overwritten"),
)  # fmt: skip

#: (pattern of the question that differs, reason): every question that differs has to fit one.
_BEYOND: tuple[tuple[str, str], ...] = (
    ("encode/* sr own|encode/* sr saturate-finite", "targets round stochastically with saturation alone"),
    ("encode/* saturate-finite", "targets are asked for saturation and for the format's own overflow"),
    ("encode/e2m1 *|encode/e2m3 *|encode/e3m2 *|encode/int8 *", "what an element format without NaN makes of one is open"),
    ("encode/e8m0 *|encode/ue4m3 *", "what a scale format makes of a negative number or of NaN is open"),
    ("quantize/* axis *", "targets are asked for matrices, not for arrays of three axes"),
    ("quantize/* large|dequantize/* large", "a default of the model's own function, which targets are always passed"),
    ("dequantize/*", "payloads of NaN are not told apart"),
    ("tensor_scale/*", "a tensor of one element, or of none but NaN"),
    ("stochastic/e2m1 te", "Transformer Engine's own rule is not asked of targets, and has vectors of its own"),
)


#: (module, function, what stood there, reason) of single places whose questions alone would not say it.
_PLACES: tuple[tuple[str, str, str, str], ...] = (
    ("mxspec.profiles.normative", "", "0", "codes under a NaN scale are open"),
    ("mxspec.fast", "_is_unusual", "unusual | (factor == 0)", "codes under a NaN scale are open"),
)


def reason_for(change: Change, differs: Sequence[str]) -> tuple[str, str]:
    """The kind of a survivor, and the reason; differs: the questions that it answers otherwise than the model."""
    for module, function, before, reason in _PLACES:
        if (change.module, change.inside, change.before) == (module, function, before):
            return BEYOND, reason
    if (reason_of_place := _find_reason(change, _NOT_ASKED)) is not None:
        return BEYOND, reason_of_place
    if not differs:
        return EQUIVALENT, _find_reason(change, _EQUIVALENT) or "no answer to any question changes"
    reasons = [next((reason for pattern, reason in _BEYOND if _matches(name, pattern)), None) for name in differs]
    if None in reasons:
        return GAP, ""
    return BEYOND, "; ".join(dict.fromkeys(r for r in reasons if r is not None))


def _find_reason(change: Change, rows: Sequence[tuple[str, str, str]]) -> str | None:
    module = change.module.removeprefix("mxspec.")
    return next((reason for of, inside, reason in rows if _matches(module, of) and _matches(change.inside, inside)), None)


def _matches(name: str, patterns: str) -> bool:
    """Whether a name is as one of these patterns, between which there is a bar."""
    return any(fnmatchcase(name, pattern) for pattern in patterns.split("|"))
