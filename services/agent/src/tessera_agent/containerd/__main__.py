"""`python -m tessera_agent.containerd`: the component `containerd`, on one node."""

from __future__ import annotations

import os
import sys

from tessera_agent.containerd.main import serve
from tessera_agent.containerd.settings import DropInSettings
from tessera_runtime.process import run, settings_or_exit

if __name__ == "__main__":
    sys.exit(run(serve, name="containerd", settings=settings_or_exit(DropInSettings, os.environ)))
