"""What a target returned for the cases of the vectors, or why it returned nothing."""
