"""Judging `quantize_fused`: by contracts, whose intervals leave one code, or the two next to a threshold, legal."""
