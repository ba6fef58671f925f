"""The judge: third-party implementations of microscaling formats against the model."""
