"""A small transformer on sentences of a known source, quantized into containers, and compared with itself unquantized.

`python -m mxspec_lab.transformer` measures, and writes reports/atlas/transformer.json. Informational: no verdict depends on it.
"""
