"""Filter against its budget: p99 5 ms on one core for 5,000 nodes x 8 cards, half full; 500 MB.

Starts as the scheduler does (nodes, then pages of pods), then measures filter calls from bytes to
bytes, quota and decision record included, for pods of all dialects in turn. Between two calls a
placed pod is bound and another one ends, so the ledger keeps changing and stays half full. With
`--policy pack` the cluster has learned from a history of these pods, and knows their shapes, as a
scheduler that has run for a while; with `--cold` it has learned and met none of the shapes yet.
With `--shuffled` each call names the nodes in another order, as kube-scheduler does.

    make bench [ARGS="--nodes 5000 --grants 50000 --calls 3000 --policy pack --json"]
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import resource
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.fleet import a_node, a_pod, bound_pods, kinds
from tessera_core.admission.admit import AdmittedPod, admit
from tessera_core.explain.decision_log import DecisionLog
from tessera_core.inventory.merge import cards_of
from tessera_core.kube.host_requests import Host
from tessera_core.ledger.entries import ObservedPod
from tessera_core.ledger.ledger import Ledger
from tessera_core.placement.packing.demand_history import History
from tessera_core.placement.packing.forecast import learn
from tessera_core.placement.packing.host_capacity import HostCapacity
from tessera_core.placement.packing.packer import Packer
from tessera_core.placement.placer import Placer
from tessera_core.placement.screen_cache import ScreenCache
from tessera_core.recovery.adopt import adopt
from tessera_core.registry.registry import DialectRegistry, load
from tessera_core.scheduling.filter import Filter
from tessera_schema.endpoints.extender import ExtenderFilterResult
from tessera_schema.kube import Node, Pod
from tessera_schema.quotas import Limit

PAGE = 500
ORDERS = 16
"""In which nodes are named in turn."""
HOST = Host(96_000, 768 << 30)
ASKED = Host(4_000, 16 << 30)
"""What each container of `benchmarks.fleet` requests."""

_node = msgspec.json.Decoder(Node).decode
_pods = msgspec.json.Decoder(tuple[Pod, ...]).decode
_answer = msgspec.json.Decoder(ExtenderFilterResult).decode


def start(registry: DialectRegistry, nodes: int, grants: int) -> tuple[Ledger, float]:
    """A ledger as after a start, and the seconds it took, making the input left out."""
    ledger, spent = Ledger(), 0.0
    ledger.set_limits(
        [Limit(namespace=f"team-{i}", source=f"ResourceQuota team-{i}/gpus", cores_percent=10**7)
         for i in range(0, 50, 5)]
    )  # fmt: skip
    for n in range(nodes):
        body = json.dumps(a_node(n)).encode()
        began = time.perf_counter()
        node = _node(body)
        ledger.put_node(node.name, cards_of(registry, node, {})[0])
        spent += time.perf_counter() - began
    rows = ledger.fleet.rows
    ids = {node: [c.id for c in ledger.fleet.facts[row]] for node, row in rows.items()}
    for page in _pages(nodes, grants, ids):
        began = time.perf_counter()
        for pod in _pods(page):
            adopted = adopt(registry, pod, ledger.fleet.facts[rows[pod.spec.node_name]])
            ledger.observe(ObservedPod(uid=pod.metadata.uid, grant=adopted.grant), 0)
        spent += time.perf_counter() - began
    return ledger, spent


def _pages(nodes: int, grants: int, ids: dict[str, list[str]]) -> Iterator[bytes]:
    page = []
    for pod in bound_pods(nodes, grants, ids):
        page.append(pod)
        if len(page) == PAGE:
            yield json.dumps(page).encode()
            page = []
    yield json.dumps(page).encode()


def learned(registry: DialectRegistry, ledger: Ledger, *, warm: bool) -> Packer:
    """What a scheduler knows that has placed these pods for a while."""
    history, packer = History(), Packer()
    for node in ledger.fleet.rows:
        packer.hosts.node(node, HOST)
    for entry in ledger.entries():
        packer.hosts.hold(entry.grant.uid, entry.grant.node, ASKED)
    for number in range(100 * len(kinds())):
        pod = msgspec.convert(a_pod(number, kinds()[number % len(kinds())]), Pod)
        admission = admit(registry, pod)
        if isinstance(admission, AdmittedPod):
            history.add(admission.request, 0)
    state, fleet = packer.state, ledger.fleet
    hosts = packer.hosts.columns(fleet)
    state.adopt(learn(*state.lesson(fleet, history, 0, hosts)))
    state.follow(fleet, hosts)
    state.warm(fleet, history.demands if warm else [])
    packer.by_default = True
    return packer


def measure(
    registry: DialectRegistry,
    ledger: Ledger,
    packer: Packer | None,
    calls: int,
    clock: Callable[[], float],
    *,
    shuffled: bool = False,
) -> dict[str, list[float]]:
    """Milliseconds of each call, by what became of the pod."""
    placer = Placer(ledger.fleet, ScreenCache(), packer)
    filter_call = Filter(registry, ledger, placer, DecisionLog())
    rng = random.Random(11)
    orders = list(_orders(list(ledger.fleet.rows), ORDERS if shuffled else 1))
    alive = [e.grant.uid for e in ledger.entries()]
    hosts = HostCapacity() if packer is None else packer.hosts
    shapes = kinds()
    spent: dict[str, list[float]] = defaultdict(list)
    for call in range(calls):
        pod = json.dumps(a_pod(10**6 + call, shapes[call % len(shapes)])).encode()
        names = orders[call % len(orders)]
        body = b'{"Pod":' + pod + b',"Nodes":null,"NodeNames":' + names + b"}"
        began = clock()
        answer = filter_call(body, float(call))
        milliseconds = (clock() - began) * 1000
        result = _answer(answer)
        if result.error:
            sys.exit(f"filter answered an error: {result.error}")
        spent["placed" if result.node_names else "waiting"].append(milliseconds)
        uid = f"uid-{10**6 + call:08}"
        if result.node_names:
            ledger.binding_sent(uid)
            ledger.resolve_binding(uid, bound=True)
            hosts.hold(uid, result.node_names[0], ASKED)
            alive.append(uid)
            last = rng.randrange(len(alive))
            alive[last], alive[-1] = alive[-1], alive[last]
            hosts.release(alive[-1])
            ledger.ended(alive.pop())
    return spent


def _orders(names: list[str], count: int) -> Iterator[bytes]:
    """The names as JSON, in so many orders, the first as they are."""
    rng = random.Random(13)
    for _ in range(count):
        yield msgspec.json.encode(names)
        rng.shuffle(names)


def quantile(values: Sequence[float], part: float) -> float:
    """The value that `part` of the values do not exceed."""
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--grants", type=int, default=50_000)
    parser.add_argument("--calls", type=int, default=3000)
    parser.add_argument("--policy", choices=("binpack", "pack"), default="binpack")
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--shuffled", action="store_true")
    parser.add_argument("--cpu", action="store_true", help="processor time, on a busy machine")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    registry = load()
    ledger, seconds = start(registry, args.nodes, args.grants)
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    cards = ledger.fleet.cards
    full = float(cards.memory_used.sum() / cards.memory_total.sum())
    packer = learned(registry, ledger, warm=not args.cold) if args.policy == "pack" else None
    gc.collect()
    gc.freeze()
    clock = time.thread_time if args.cpu else time.perf_counter
    spent = measure(registry, ledger, packer, args.calls, clock, shuffled=args.shuffled)
    both = [ms for values in spent.values() for ms in values]
    figures = {
        "policy": args.policy, "nodes": args.nodes, "grants": args.grants,
        "memory_granted": round(full, 3),
        "start_s": round(seconds, 2), "peak_mb": round(peak_mb),
        "p50_ms": round(quantile(both, 0.5), 3), "p99_ms": round(quantile(both, 0.99), 3),
        **{f"{kind}_{name}_ms": round(quantile(values, part), 3)
           for kind, values in spent.items() for name, part in (("p50", 0.5), ("p99", 0.99))},
        **{kind: len(values) for kind, values in spent.items()},
    }  # fmt: skip
    if args.json:
        print(json.dumps(figures))
        return
    for name, value in figures.items():
        print(f"{name:16} {value}")
    print(f"budget: p99 5 ms, {500} MB at the start's peak")
    print(f"p99 {figures['p99_ms']} ms")


if __name__ == "__main__":
    main()
