"""What an implementation does, found without a profile that it claims."""
