"""`python -m tessera_console`."""

from __future__ import annotations

import os
import sys

from tessera_console.main import SERVICE
from tessera_runtime.service import run_service

if __name__ == "__main__":
    sys.exit(run_service(SERVICE, os.environ, sys.argv[1:]))
