"""Public suites that `mxspec score-tests` runs themselves: what puts an implementation in the place of the function under test.

The suites' files are not part of this repository: README.md beside this file says which to fetch and how each is run.
"""
