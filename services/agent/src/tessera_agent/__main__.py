"""`python -m tessera_agent`."""

from __future__ import annotations

import os
import sys

from tessera_agent.main import serve
from tessera_agent.settings import AgentSettings
from tessera_runtime import service


def main() -> int:
    """Run until asked to end; the exit status."""
    settings = service.settings_or_exit(AgentSettings, os.environ)
    return service.run(serve, name="agent", settings=settings)


if __name__ == "__main__":
    sys.exit(main())
