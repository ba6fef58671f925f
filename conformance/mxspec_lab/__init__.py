"""The maintainers' laboratory: mutants, sweeps, cross-checks, benchmarks. Not part of the wheel."""
