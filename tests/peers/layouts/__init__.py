"""Layouts against libraries that we did not write: one module a library, run by `run_layouts.py`."""
