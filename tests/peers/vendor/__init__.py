"""Vendors' device functions, built for the host by somebody else, against the profiles that were read from their source."""
