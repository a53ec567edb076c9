"""`python -m tessera_embedded.scheduling --kubeconfig FILE --config FILE`: the scheduler as a
process. Prints `ready` once it schedules. SIGTERM and SIGINT end it."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from pathlib import Path

from tessera_embedded.scheduling.open import open_scheduler


async def _serve(kubeconfig: Path, config: Path) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    async with open_scheduler(kubeconfig, config):
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await stopped.wait()


def main() -> None:
    """Read the command line and schedule."""
    parser = argparse.ArgumentParser(prog="tessera_embedded.scheduling", description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, required=True, help="of the API server")
    parser.add_argument("--config", type=Path, required=True, help="KubeSchedulerConfiguration")
    given = parser.parse_args()
    asyncio.run(_serve(given.kubeconfig, given.config))


if __name__ == "__main__":
    main()
