"""Fuzzing `quantize` and `dequantize` of block formats."""
