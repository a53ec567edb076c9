"""Filter while gangs wait: p99 at most 5 ms with 200 of them, on 5,000 nodes x 8 cards, half full.

The cluster is that of `benchmarks/filter.py`, its nodes in four zones. Each gang has members that
ask for whole nodes of one vendor and zone, which nobody has to give, so that every search goes
through all nodes; the first one of each vendor and zone has cards reserved. Half of the pods that
run say when they end. Between two calls the gangs go on by one slice, as in the scheduler's loop: a
call that comes meanwhile waits for the slice, so both together are counted too. A tenth of the
calls are of gangs' members. Times are of the process.

    .venv/bin/python benchmarks/filter_gangs.py [--gangs 200] [--nodes 5000] [--grants 50000]
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import msgspec

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.filter import quantile, start
from benchmarks.fleet import Json, a_node, a_pod, kinds
from tessera_core.admission.exempt_pods import scope_of
from tessera_core.explain.decision_log import DecisionLog
from tessera_core.gang_scheduling.answers import WaitsForGang
from tessera_core.gang_scheduling.coordinator import GangCoordinator
from tessera_core.gang_scheduling.line_shadows import LineShadows
from tessera_core.gang_scheduling.registry import GangRegistry
from tessera_core.gangs.gang import GangOrigin
from tessera_core.gangs.pod_groups import PodGroup, PodGroupSpec, gang_of
from tessera_core.gangs.reservation import STEPS_OF_A_SLICE
from tessera_core.kube.host_requests import Host
from tessera_core.ledger.ledger import Ledger
from tessera_core.placement.placer import Placer
from tessera_core.placement.screen_cache import ScreenCache
from tessera_core.registry.plugin_requests import plugin_requests
from tessera_core.registry.registry import DialectRegistry, load
from tessera_core.scheduling.filter import Filter
from tessera_core.scheduling.in_flight import InFlightPods
from tessera_core.scheduling.reserve import reserved_node
from tessera_core.shadows.expected_ends import LifeSpan
from tessera_core.slices import at_once
from tessera_scheduler.gangs.nodes import GangNodes
from tessera_scheduler.gangs.places import GangPlaces
from tessera_schema.kube import Node, NodeStatus, ObjectMeta, Pod, Quantity

SIZE = 8
WHOLE_NODES: tuple[Json, ...] = (
    {"nvidia.com/gpu": 8, "nvidia.com/gpumem": 81920},
    {"iluvatar.ai/vgpu": 8, "iluvatar.ai/vcuda-core": 100, "iluvatar.ai/vcuda-memory": 128},
    {"mthreads.com/vgpu": 8, "mthreads.com/sgpu-core": 16, "mthreads.com/sgpu-memory": 96},
)
ZONE = "topology.kubernetes.io/zone"
ZONES = 4
LONGEST_S = 3 * 86400
HOST = Host(4_000, 16 << 30)
CALLS_A_SECOND = 100.0
ALLOCATABLE: dict[str, Quantity] = {"cpu": "96", "memory": "768Gi", "pods": "110"}


def members(gangs: int) -> Iterator[Json]:
    """Members of Volcano's gangs, as users write them."""
    for number in range(gangs * SIZE):
        gang = number // SIZE
        pod = a_pod(2 * 10**6 + number, {"limits": [WHOLE_NODES[gang % len(WHOLE_NODES)]]})
        pod["metadata"]["namespace"] = "team"
        pod["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": f"g{gang}"}
        pod["spec"]["nodeSelector"] = {ZONE: f"z{gang // len(WHOLE_NODES) % ZONES}"}
        yield pod


def life(rng: random.Random) -> LifeSpan:
    """Of a pod that runs."""
    return LifeSpan(-rng.uniform(0, 3600), rng.choice((None, rng.uniform(3600, LONGEST_S))))


def waiting(
    registry: DialectRegistry, ledger: Ledger, nodes: int, gangs: int
) -> tuple[GangCoordinator, LineShadows, GangNodes, list[Json]]:
    """Gangs that have all their members, and find no room."""
    followed = GangNodes(registry.resources)
    status = NodeStatus(allocatable=ALLOCATABLE)
    names = [a_node(n)["metadata"]["name"] for n in range(nodes)]
    metas = [
        ObjectMeta(name=name, labels={ZONE: f"z{n // 10 % ZONES}"}) for n, name in enumerate(names)
    ]
    followed.on_list([Node(metadata=meta, status=status) for meta in metas], 0, 0)
    rng = random.Random(5)
    for entry in ledger.entries():
        followed.hold(entry.grant.uid, entry.grant.node, HOST, life(rng))
    in_flight = InFlightPods(plugin_requests(registry), partial(reserved_node, ledger))
    places = GangPlaces(registry, ledger, followed, in_flight, scope_of(registry))
    found = GangRegistry(places.requests_cards, places.bar)
    for number in range(gangs):
        meta = ObjectMeta(name=f"g{number}", namespace="team")
        group = PodGroup(metadata=meta, spec=PodGroupSpec(min_member=SIZE))
        found.put_group(gang_of(GangOrigin.VOLCANO, group))
    pods = list(members(gangs))
    at_once(found.list_pods([msgspec.convert(pod, Pod) for pod in pods]))
    shadows = LineShadows(ledger, places.later, followed.lifetimes, str)
    coordinator = GangCoordinator(found, ledger, places.search, shadows=shadows)
    return coordinator, shadows, followed, pods


class Measurement:
    """Calls and slices in turn, and what each took."""

    def __init__(
        self,
        registry: DialectRegistry,
        ledger: Ledger,
        gangs: GangCoordinator,
        shadows: LineShadows,
        nodes: GangNodes,
        pods: list[Json],
    ) -> None:
        """`pods` are the gangs' members."""
        self.spent: dict[str, list[float]] = defaultdict(list)
        """Milliseconds."""
        self.refused = 0
        self._ledger, self._gangs, self._pods, self._nodes = ledger, gangs, pods, nodes
        self._filter = Filter(
            registry, ledger, Placer(ledger.fleet, ScreenCache()), DecisionLog(),
            held_back=self._refusal, passes=shadows.reserved.passes,
        )  # fmt: skip
        self._rng = random.Random(11)
        self._names = json.dumps(list(ledger.fleet.rows)).encode()
        self._alive = [entry.grant.uid for entry in ledger.entries()]
        self._more = True

    def _refusal(self, pod: Pod, now: float) -> str:
        if "scheduling.k8s.io/group-name" not in pod.metadata.annotations:
            return ""
        answer = self._gangs.answer(pod.metadata.uid, now)
        if not isinstance(answer, WaitsForGang):
            sys.exit(f"{pod.name} has cards")
        self.refused += 1
        return answer.message

    def run(self, calls: int) -> None:
        """So many calls."""
        shapes = kinds()
        for call in range(calls):
            now = 1000 + call / CALLS_A_SECOND
            slice_ms = self._slice(call, now)
            of_gang = self._pods and not call % 10
            shape = shapes[call % len(shapes)]
            pod = self._rng.choice(self._pods) if of_gang else a_pod(10**6 + call, shape)
            ms = self._call(pod, now)
            self.spent["call"].append(ms)
            self.spent["slice"].append(slice_ms)
            self.spent["call and slice"].append(ms + slice_ms)

    def _slice(self, call: int, now: float) -> float:
        began = time.thread_time()
        if self._more or not call % int(CALLS_A_SECOND / 20):  # changes are gathered for 50 ms
            self._more = self._gangs.step(now, STEPS_OF_A_SLICE)
            self._gangs.effects()
        return (time.thread_time() - began) * 1000

    def _call(self, pod: Json, now: float) -> float:
        body = b'{"Pod":%b,"Nodes":null,"NodeNames":%b}' % (json.dumps(pod).encode(), self._names)
        began = time.thread_time()
        raw = self._filter(body, now)
        ms = (time.thread_time() - began) * 1000
        answer = msgspec.json.decode(raw)
        if answer.get("Error"):
            sys.exit(f"filter answered an error: {answer['Error']}")
        if answer.get("NodeNames"):
            self._bound(pod["metadata"]["uid"], answer["NodeNames"][0])
        return ms

    def _bound(self, uid: str, node: str) -> None:
        """The pod is bound, and another one ends."""
        self._nodes.hold(uid, node, HOST, life(self._rng))
        self._ledger.binding_sent(uid)
        self._ledger.resolve_binding(uid, bound=True)
        alive = self._alive
        alive.append(uid)
        last = self._rng.randrange(len(alive))
        alive[last], alive[-1] = alive[-1], alive[last]
        self._nodes.release(alive[-1])
        self._ledger.ended(alive.pop())


def main() -> None:
    """Print the quantiles without and with gangs that wait."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--grants", type=int, default=50_000)
    parser.add_argument("--gangs", type=int, default=200)
    parser.add_argument("--calls", type=int, default=7500)
    options = parser.parse_args()
    registry = load()
    print("| gangs that wait | of | p50, ms | p99, ms | longest, ms |\n|" + " --- |" * 5)
    for count in (0, options.gangs):
        ledger, _ = start(registry, options.nodes, options.grants)
        gangs, shadows, nodes, pods = waiting(registry, ledger, options.nodes, count)
        while gangs.step(0, STEPS_OF_A_SLICE):
            gangs.effects()
        if len(gangs.bundles()) != count or any(each.attempt.holds for each in gangs.bundles()):
            sys.exit("not all gangs wait")
        gc.collect()
        gc.freeze()
        measurement = Measurement(registry, ledger, gangs, shadows, nodes, pods)
        measurement.run(options.calls)
        if pods and not shadows.reserved.all():
            sys.exit("no gang has cards reserved: more calls give the search time")
        if pods and not measurement.refused:
            sys.exit("no call was of a gang's member")
        for name, values in measurement.spent.items():
            row = (quantile(values, 0.5), quantile(values, 0.99), max(values))
            print(
                f"| {count} | {name} | " + " | ".join(f"{ms:.2f}" for ms in row) + " |", flush=True
            )
        gc.unfreeze()


if __name__ == "__main__":
    main()
