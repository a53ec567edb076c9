"""`as_user.py UID WORD...` runs the command as another user: an interpreter that only root may read
is loaded before."""

import importlib
import os
import sys

from tessera_cli.__main__ import run
from tessera_cli.local_run import amounts, machine_top, ps, share
from tessera_cli.local_run import run as starting

LOADED = (amounts, machine_top, ps, share, starting)

if __name__ == "__main__":
    uid = int(sys.argv[1])
    if sys.argv[2] == "top":
        importlib.import_module("tessera_cli.top.cluster_top")
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)
    sys.exit(run(sys.argv[2:]))
