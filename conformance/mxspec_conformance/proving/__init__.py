"""`mxspec prove`: every input there is, where a block quantizer comes apart into pairs of a maximum and an element."""
