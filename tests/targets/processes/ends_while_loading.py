"""The process ends while the file is loaded."""

import os

os._exit(4)
