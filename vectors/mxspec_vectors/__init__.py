"""Golden vectors: frozen answers of the model as files that any language reads."""
