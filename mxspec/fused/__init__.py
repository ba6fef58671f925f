"""Fused quantizers: quantize(f(x)), by contracts that say where f is rounded, and the answers that a contract leaves legal."""
