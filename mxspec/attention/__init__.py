"""KV caches of quantized rows, and attention over them: formats, places in pages, and which outputs are right."""

from mxspec.attention.bounds import Bounds, bound_outputs
from mxspec.attention.caches import append_cache, find_places, read_cache, read_rows, view_rows
from mxspec.attention.formats import ROW_FORMATS, CacheSpec, RowFormat, Scaling, parse_attention, parse_cache
from mxspec.attention.rows import Quantizer, decode_rows, join_rows, list_quantizers
from mxspec.attention.softmax import Call, attend, attend_as, find_visible, list_sequences

__all__ = [
    "ROW_FORMATS",
    "Bounds",
    "CacheSpec",
    "Call",
    "Quantizer",
    "RowFormat",
    "Scaling",
    "append_cache",
    "attend",
    "attend_as",
    "bound_outputs",
    "decode_rows",
    "find_places",
    "find_visible",
    "join_rows",
    "list_quantizers",
    "list_sequences",
    "parse_attention",
    "parse_cache",
    "read_cache",
    "read_rows",
    "view_rows",
]
