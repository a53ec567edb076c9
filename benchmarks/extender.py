"""The extender's calls about all nodes, next to filter of plain pods: filter and prioritize of pods
with preferences, and preempt, from bytes to bytes, on the cluster of `benchmarks/filter.py`.

Preempt is asked about as many nodes as kube-scheduler proposes at most, a tenth, with two victims
on each. Processor time.

    .venv/bin/python benchmarks/extender.py [--nodes 10000] [--grants 100000] [--calls 40]
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.filter import quantile, start
from benchmarks.fleet import Json, a_pod, kinds
from tessera_core.explain.decision_log import DecisionLog
from tessera_core.ledger.ledger import Ledger
from tessera_core.placement.placer import Placer
from tessera_core.placement.screen_cache import ScreenCache
from tessera_core.registry.registry import DialectRegistry, load
from tessera_core.scheduling.filter import Filter
from tessera_core.scheduling.node_reservations import NodeReservations
from tessera_core.scheduling.preemption import PreemptionCheck
from tessera_core.scheduling.prioritize import Prioritizer
from tessera_schema.endpoints.extender import (
    ExtenderFilterResult,
    ExtenderPreemptionResult,
    decode_args,
    decode_preemption_args,
    encode_result,
)

PREFERS: Final[Json] = {
    "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}
}
VICTIMS: Final = 2
_filtered = msgspec.json.Decoder(ExtenderFilterResult).decode


class Calls:
    """The verbs, as `tessera_scheduler.extender.handlers` answers them."""

    def __init__(self, registry: DialectRegistry, ledger: Ledger) -> None:
        placer = Placer(ledger.fleet, ScreenCache())
        self.filter = Filter(registry, ledger, placer, DecisionLog())
        self._prioritizer = Prioritizer(registry, ledger, placer)
        self._preemption = PreemptionCheck(registry, ledger, NodeReservations(ledger.entry))

    def prioritize(self, body: bytes) -> bytes:
        """See `Extender.prioritize`."""
        return self._prioritizer.answer(decode_args(body))

    def preempt(self, body: bytes) -> bytes:
        """See `Extender.preempt`."""
        args = decode_preemption_args(body)
        victims = args.node_name_to_meta_victims or {}
        uids = {node: [pod.uid for pod in each.pods or ()] for node, each in victims.items()}
        useful = self._preemption.nodes(args.pod, uids, 0.0)
        left = {node: each for node, each in victims.items() if node in useful}
        return encode_result(ExtenderPreemptionResult(left))


def main() -> None:
    """Print a row for each verb."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--grants", type=int, default=100_000)
    parser.add_argument("--calls", type=int, default=40)
    options = parser.parse_args()
    registry = load()
    ledger, _ = start(registry, options.nodes, options.grants)
    calls, spent = Calls(registry, ledger), defaultdict[str, list[float]](list)
    names, victims = list(ledger.fleet.rows), _victims(ledger, options.nodes // 10)

    def timed(verb: str, call: Callable[[bytes], bytes], **body: Any) -> bytes:
        raw = msgspec.json.encode(body)
        began = time.process_time()
        answer = call(raw)
        spent[verb].append((time.process_time() - began) * 1e3)
        return answer

    gc.collect()
    gc.freeze()
    for number in range(options.calls * len(kinds())):
        pod = a_pod(10**6 + number, kinds()[number % len(kinds())])
        pod["spec"]["affinity"] = PREFERS
        filtering = partial(calls.filter, now=float(number))
        fitting = _filtered(timed("filter", filtering, Pod=pod, NodeNames=names)).node_names
        if fitting:
            timed("prioritize", calls.prioritize, Pod=pod, NodeNames=fitting)
        timed("preempt", calls.preempt, Pod=pod, NodeNameToMetaVictims=victims)
    print("| call | calls | p50, ms | p99, ms | longest, ms |\n|" + " --- |" * 5)
    for verb, values in spent.items():
        row = (quantile(values, 0.5), quantile(values, 0.99), max(values))
        print(f"| {verb} | {len(values)} | " + " | ".join(f"{ms:.2f}" for ms in row) + " |")


def _victims(ledger: Ledger, nodes: int) -> dict[str, Json]:
    """Node -> pods that run there, as kube-scheduler names them."""
    uids = defaultdict[str, list[str]](list)
    for entry in ledger.entries():
        uids[entry.grant.node].append(entry.grant.uid)
    return {
        node: {"Pods": [{"UID": uid} for uid in each[:VICTIMS]], "NumPDBViolations": 0}
        for node, each in list(uids.items())[:nodes]
    }


if __name__ == "__main__":
    main()
