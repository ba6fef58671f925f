"""Whether an answer depends on the call that it is given in."""
