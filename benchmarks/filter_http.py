"""Where the time of a filter call goes: what its client spends, what the way costs, and the filter.

The filter of `benchmarks/filter.py` answers in a process of its own over the scheduler's HTTP
server, to one client that has nothing else to do and names the nodes in another order each time.
Of the client's side the encoding of the body is timed, as `benchmarks/scale.py` has it encoded; of
the server's the processor time of the whole process, and of the filter in it.

    .venv/bin/python benchmarks/filter_http.py [--nodes 10000] [--grants 50000] [--calls 400]
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import http.client
import json
import random
import statistics
import sys
import time
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

import msgspec

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.filter import ORDERS, quantile, start
from benchmarks.fleet import a_pod, kinds
from tessera_core.explain.decision_log import DecisionLog
from tessera_core.placement.placer import Placer
from tessera_core.placement.screen_cache import ScreenCache
from tessera_core.registry.registry import load
from tessera_core.scheduling.filter import Filter
from tessera_runtime.http import server
from tessera_runtime.http.fast_path import Reply

WARM: Final = 4 * len(kinds())
"""Calls that do not count: each shape is met a few times."""


def serve(nodes: int, grants: int, ready: Connection) -> None:
    """Answer `/filter`, and `/spent` with seconds of processor time: of the process, of filter."""
    registry = load()
    ledger, _ = start(registry, nodes, grants)
    filter_ = Filter(registry, ledger, Placer(ledger.fleet, ScreenCache()), DecisionLog())
    gc.collect()
    gc.freeze()
    spent = 0.0

    def filtered(body: bytes) -> Reply:
        nonlocal spent
        began = time.thread_time()
        answer = filter_(body, time.monotonic())
        spent += time.thread_time() - began
        return Reply(answer)

    async def run() -> None:
        settings = server.HttpSettings()
        answers = {
            "/filter": filtered,
            "/spent": lambda _: Reply(msgspec.json.encode((time.process_time(), spent))),
        }
        app = server.application(settings)
        async with server.serving(app, settings, name="http", answers=answers) as served:
            ready.send((served.port, list(ledger.fleet.rows)))
            await asyncio.Event().wait()

    asyncio.run(run())


class Client:
    """One connection."""

    def __init__(self, port: int) -> None:
        self._http = http.client.HTTPConnection("127.0.0.1", port)

    def post(self, path: str, body: bytes) -> Any:
        """The answer, decoded."""
        self._http.request("POST", path, body, {"Content-Type": "application/json"})
        return msgspec.json.decode(self._http.getresponse().read())


def measure(client: Client, names: list[str], calls: int) -> dict[str, list[float]]:
    """Milliseconds of each call, by part."""
    rng, spent = random.Random(3), dict[str, list[float]]()
    orders = [rng.sample(names, len(names)) for _ in range(ORDERS)]
    for number in range(WARM + calls):
        body = {
            "Pod": a_pod(number, kinds()[number % len(kinds())]),
            "NodeNames": orders[number % ORDERS],
        }
        process_s, filter_s = client.post("/spent", b"{}")
        began, began_cpu = time.perf_counter(), time.process_time()
        raw = json.dumps(body).encode()
        encoded_cpu = time.process_time()
        client.post("/filter", raw)
        ended, ended_cpu = time.perf_counter(), time.process_time()
        process_after_s, filter_after_s = client.post("/spent", b"{}")
        if number < WARM:
            continue
        in_filter = filter_after_s - filter_s
        for part, seconds in (
            ("whole call, time of the wall", ended - began),
            ("client: body encoded", encoded_cpu - began_cpu),
            ("client: body sent, answer read", ended_cpu - encoded_cpu),
            ("server: filter", in_filter),
            ("server: HTTP, and two small requests", process_after_s - process_s - in_filter),
        ):
            spent.setdefault(part, []).append(1e3 * seconds)
    return spent


def main() -> None:
    """Print a row for each part."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--grants", type=int, default=50_000)
    parser.add_argument("--calls", type=int, default=400)
    options = parser.parse_args()
    context = get_context("spawn")
    mine, its = context.Pipe()
    process = context.Process(target=serve, args=(options.nodes, options.grants, its), daemon=True)
    process.start()
    port, names = mine.recv()
    print("| part of a call | p50, ms | p99, ms |\n| --- | --- | --- |")
    for part, values in measure(Client(port), names, options.calls).items():
        print(f"| {part} | {statistics.median(values):.2f} | {quantile(values, 0.99):.2f} |")
    process.terminate()
    process.join()


if __name__ == "__main__":
    main()
