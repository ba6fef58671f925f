"""Mutants of pruning, compressing and decompressing, and right implementations that are unlike the model."""
