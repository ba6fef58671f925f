"""What a run came to: reports, requirements, verdicts, waivers, and where it took place."""
