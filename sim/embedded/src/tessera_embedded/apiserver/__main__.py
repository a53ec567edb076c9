"""`python -m tessera_embedded.apiserver --folder DIR [--port N]`: an API server as a process.

Prints `ready URL` once it answers; SIGTERM and SIGINT end it. The kubeconfig lies in the folder,
and so do the tokens of the accounts that a file may name in addition to the administrator.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from pathlib import Path

import msgspec

from tessera_embedded.apiserver.access import Account
from tessera_embedded.apiserver.server import open_apiserver


async def _serve(folder: Path, port: int, accounts: list[Account]) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    async with open_apiserver(folder, port=port, accounts=accounts) as server:
        sys.stdout.write(f"ready {server.url}\n")
        sys.stdout.flush()
        await stopped.wait()


def main() -> None:
    """Read the command line and serve."""
    parser = argparse.ArgumentParser(prog="tessera_embedded.apiserver", description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="where everything is kept")
    parser.add_argument("--port", type=int, default=0, help="0, the default, takes a free one")
    parser.add_argument("--accounts", type=Path, help="JSON list of accounts: name, rules, groups")
    given = parser.parse_args()
    try:
        accounts = _accounts(given.accounts)
    except (OSError, msgspec.MsgspecError) as e:
        parser.error(f"--accounts {given.accounts}: {e}")
    asyncio.run(_serve(given.folder, given.port, accounts))


def _accounts(path: Path | None) -> list[Account]:
    return [] if path is None else msgspec.json.decode(path.read_bytes(), type=list[Account])


if __name__ == "__main__":
    main()
