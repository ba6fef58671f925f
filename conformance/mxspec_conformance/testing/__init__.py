"""For the tests of others: a pytest plugin, hypothesis strategies, tensors compared."""
