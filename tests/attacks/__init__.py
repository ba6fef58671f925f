"""Attacks on the reliability of the command line, as data, and one command that runs them: `python -m tests.attacks`."""
