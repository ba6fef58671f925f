"""Targets for libraries that we did not write: glue only, no arithmetic of our own."""
