"""Casts and scale functions as SMT-LIB: the profile's definition, the C99 header's text and the array model's tables are one function."""
