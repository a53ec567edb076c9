"""Removes the demo's folder when the demo cannot do it any more: `python -m ... FOLDER`.

The demo holds the other end of its standard input. When that closes, however the demo ended, what
is left of the folder is removed, as soon as the demo's processes, which end with it, have let go.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
from pathlib import Path
from typing import Final

PATIENCE_S: Final = 30.0
"""Seconds in which the demo's processes end: each has twelve before it is killed."""
_LOOK_S: Final = 0.5
_PREFIX: Final = "tessera-demo-"


def main() -> None:
    """Wait for the demo's end, then remove its folder."""
    folder = Path(sys.argv[1])
    if not folder.name.startswith(_PREFIX):
        sys.exit(f"{folder}: not a folder of the demo")
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    while os.read(0, 1024):
        pass
    never = threading.Event()
    for _ in range(int(PATIENCE_S / _LOOK_S)):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists() and not _in_use(folder):
            return
        never.wait(_LOOK_S)


def _in_use(folder: Path) -> bool:
    """Whether a process is left that was started for this folder, and may write there again."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
        except OSError:
            continue
        if str(folder).encode() in command and process.name != str(os.getpid()):
            return True
    return False


if __name__ == "__main__":
    main()
