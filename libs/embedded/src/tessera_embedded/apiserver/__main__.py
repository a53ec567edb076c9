"""`python -m tessera_embedded.apiserver --folder DIR [--port N]`: an API server as a process.

Prints `ready URL` once it answers; the kubeconfig lies in the folder. SIGTERM and SIGINT end it.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from pathlib import Path

from tessera_embedded.apiserver.opening import open_apiserver


async def _serve(folder: Path, port: int) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    async with open_apiserver(folder, port=port) as server:
        sys.stdout.write(f"ready {server.url}\n")
        sys.stdout.flush()
        await stopped.wait()


def main() -> None:
    """Read the command line and serve."""
    parser = argparse.ArgumentParser(prog="tessera_embedded.apiserver", description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="where everything is kept")
    parser.add_argument("--port", type=int, default=0, help="0, the default, takes a free one")
    given = parser.parse_args()
    asyncio.run(_serve(given.folder, given.port))


if __name__ == "__main__":
    main()
