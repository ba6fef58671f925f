"""Targets for the libraries that mxspec knows: one module for each library, found by `registry`."""
