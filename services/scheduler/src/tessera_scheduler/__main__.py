"""`python -m tessera_scheduler`."""

from __future__ import annotations

import os
import sys

from tessera_runtime import service
from tessera_scheduler.main import serve
from tessera_scheduler.settings import SchedulerSettings


def main() -> int:
    """Run until asked to end; the exit status."""
    settings = service.settings_or_exit(SchedulerSettings, os.environ)
    return service.run(serve, name="scheduler", settings=settings)


if __name__ == "__main__":
    sys.exit(main())
