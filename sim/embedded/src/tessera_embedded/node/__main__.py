"""`python -m tessera_embedded.node --kubeconfig FILE --folder DIR --description FILE`: a node as a
process. Prints `ready` once plugins can connect. SIGTERM and SIGINT end it and its containers."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from pathlib import Path

from tessera_embedded.node.open import open_node
from tessera_embedded.node.settings import BadDescription, read_description


async def _serve(kubeconfig: Path, folder: Path, description: Path) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    async with open_node(kubeconfig, folder, read_description(description)):
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await stopped.wait()


def main() -> None:
    """Read the command line and carry pods."""
    parser = argparse.ArgumentParser(prog="tessera_embedded.node", description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, required=True, help="of the API server")
    parser.add_argument("--folder", type=Path, required=True, help="the node's own")
    parser.add_argument("--description", type=Path, required=True, help="what it is made of")
    given = parser.parse_args()
    try:
        asyncio.run(_serve(given.kubeconfig, given.folder.resolve(), given.description))
    except BadDescription as e:
        sys.exit(f"{parser.prog}: {e}")


if __name__ == "__main__":
    main()
