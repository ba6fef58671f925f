"""Fuzzing `matmul`: random products, each output judged by what its class of additions allows."""
