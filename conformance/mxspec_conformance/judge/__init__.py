"""From observations to requirements, verdicts and the nearest profile."""
