"""Roads by which a target that is no Python object comes in: shared library, process, results file."""
