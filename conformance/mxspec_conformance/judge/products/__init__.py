"""Judging matrix products: designed operands, the exact reference, and every output that an accumulation may give."""
