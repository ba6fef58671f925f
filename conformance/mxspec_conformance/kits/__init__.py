"""Kits: a few golden blocks and calls as files that other projects paste into their own tests."""
