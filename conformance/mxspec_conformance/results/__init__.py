"""The outcome of a run: reports, requirements, verdicts, waivers, and where it took place."""
