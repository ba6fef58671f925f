"""Every function on every input there is: the models against each other and against outside references."""
