"""`python -m tessera_quota`."""

from __future__ import annotations

import os
import sys

from tessera_quota.main import serve
from tessera_quota.settings import QuotaSettings
from tessera_runtime import service


def main() -> int:
    """Run until asked to end; the exit status."""
    settings = service.settings_or_exit(QuotaSettings, os.environ)
    return service.run(serve, name="quota", settings=settings)


if __name__ == "__main__":
    sys.exit(main())
