"""Recordings of libraries, and the verdicts that the judge computes from them."""
