"""Plays the demo and makes its pictures and its recording of the documentation: `make pictures`.

python -m tests.demo.pictures docs/pictures
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Final

from tests.demo.recording import asciicast, played, thinned

_SIZE: Final = (140, 42)
_EVERY_S: Final = 2.0
"""Seconds between two pictures of the recording: one every half second is five times as much."""


def main() -> int:
    """Play it; the demo's exit status. Nothing of a demo that failed is written."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    argv = [sys.executable, "-m", "tessera_cli", "demo", "--pictures", str(folder)]
    environ = {**os.environ, "TERM": "xterm-256color"}  # noqa: TID251  (a terminal of its own)
    status, written = played(argv, _SIZE, environ)
    if status:
        sys.stderr.write("".join(one.text for one in written[-20:]))
        return status
    recording = folder / "demo.cast"
    recording.write_bytes(asciicast(thinned(written, _EVERY_S), _SIZE, "make demo"))
    for file in (folder / "demo-playing.svg", folder / "demo-closing.svg", recording):
        sys.stdout.write(f"{file} ({file.stat().st_size // 1024} KB)\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
