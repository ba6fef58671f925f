"""The judge of tests: runs an acceptance test against right implementations and mutants, and reports what it detects."""
