"""Whether each committed result still speaks of what is here: current or stale, why, and what renews it."""
