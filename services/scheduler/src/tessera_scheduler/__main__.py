"""`python -m tessera_scheduler`."""

from __future__ import annotations

import os
import sys

from tessera_runtime.service import run_service
from tessera_scheduler.main import SERVICE

if __name__ == "__main__":
    sys.exit(run_service(SERVICE, os.environ, sys.argv[1:]))
