"""Implementations under test: their interface, what they say of themselves, and calling them."""
