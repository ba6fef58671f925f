"""GPU implementations of the model's profiles."""
