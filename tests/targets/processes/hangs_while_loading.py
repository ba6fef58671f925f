"""The file never ends loading."""

import time

time.sleep(600)
