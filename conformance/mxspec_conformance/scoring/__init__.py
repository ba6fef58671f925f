"""The judge of tests: runs somebody's acceptance test against right implementations and mutants, and says what it sees."""
