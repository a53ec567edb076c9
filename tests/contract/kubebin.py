"""The programs of `deploy/kube-bin`: who needs some of them names them, and gets their folder."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

BUILDER = Path(__file__).parents[2] / "deploy" / "kube-bin" / "build.sh"


class KubeBinMissing(Exception):
    """Programs are not there, and cannot be had: the message says why and what would do."""


def kube_bin(*names: str, received: bool = False) -> Path:
    """The folder of the programs, which are built now if they are not there (minutes, once).

    Raises KubeBinMissing. What the builder says is in the error or, where `heard`, on the screen.
    """
    bash = shutil.which("bash")
    if bash is None:
        raise KubeBinMissing("kube-bin: there is no bash to build with")
    ran = subprocess.run(
        [bash, BUILDER, *names],
        stdout=subprocess.PIPE,
        stderr=None if received else subprocess.PIPE,
        text=True,
        check=False,
    )
    if ran.returncode:
        raise KubeBinMissing((ran.stderr or "").strip())
    return Path(ran.stdout.strip())
