"""Judging what rounds stochastically: `quantize` by random bits that it is given or by a generator of its own, and `encode_stochastic`."""
