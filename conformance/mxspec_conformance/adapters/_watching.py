"""Reading what a library computes on the way, by what is put into its modules while it runs."""

from __future__ import annotations

import threading

#: One call at a time is watched: calls of other threads would meet what was put there for one, and be blamed on the library.
WATCHING = threading.Lock()
