"""Targets for the libraries that mxspec knows."""
