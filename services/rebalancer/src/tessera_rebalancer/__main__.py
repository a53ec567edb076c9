"""`python -m tessera_rebalancer`."""

from __future__ import annotations

import os
import sys

from tessera_rebalancer.main import serve
from tessera_rebalancer.settings import RebalancerSettings
from tessera_runtime import service


def main() -> int:
    """Run until asked to end; the exit status."""
    settings = service.settings_or_exit(RebalancerSettings, os.environ)
    return service.run(serve, name="rebalancer", settings=settings)


if __name__ == "__main__":
    sys.exit(main())
