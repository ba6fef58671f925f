"""Judging attention with quantized operands, and the caches that it reads."""
