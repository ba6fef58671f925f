"""How a target is reached: in this process, in a child, as a shared library, as a program, or as a file of results."""
