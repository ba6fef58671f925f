"""What the maintainers do with the mutants of the judge: the kill matrix, the quick level, and changes of the model's source."""
