"""Judging `quantize` where it rounds stochastically: by random bits that it is given, or by a generator of its own."""
