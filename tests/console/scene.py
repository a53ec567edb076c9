"""A cluster in memory with a console that serves it: for tests on the wire, in a browser, and for
the pictures of the documentation."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from tessera_console.main import RunningConsole, open_console
from tessera_console.rights import ConsoleCaller
from tessera_console.settings import ConsoleSettings, StreamSettings
from tessera_core.gang_scheduling.view import QueueView
from tessera_core.registry.registry import load
from tessera_embedded.apiserver.access import MASTERS, Rule
from tessera_embedded.apiserver.http_types import AuthenticatedUser
from tessera_runtime.clock import SystemClock
from tessera_runtime.errors import ApiForbidden
from tessera_runtime.kube.api import Verb
from tessera_runtime.kube.settings import KubeSettings
from tessera_runtime.service import ServiceEnvironment
from tessera_scheduler.visibility.queue_states import listed_queues
from tessera_schema.endpoints.queue_states import QUEUES_PLURAL
from tessera_schema.grants import Grant
from tessera_schema.messages.allocation_events import (
    AllocationEvent,
    AllocationGranted,
    AllocationRefused,
    encode_event,
    subject,
)
from tessera_schema.messages.device_reports import ContainerUse
from tessera_schema.messages.envelope import Envelope
from tessera_schema.reasons import Reason
from tessera_testing.bus import FakeBus
from tessera_testing.kube import FakeKube, a_store
from tests.cli.card_cluster import (
    a100,
    card_node,
    holding_pod,
    node_usage,
    part,
    signed,
    use,
    waiting_pod,
)
from tests.quota.cluster import CRDS, DEFINITION, ROOT

REGISTRY: Final = load()
CLUSTER: Final = "default"
ADMIN: Final = "token-of-the-administrator"
TENANT: Final = "token-of-a-tenant"
TENANT_OF: Final = "team-a"
PLANS_DEFINITION: Final = msgspec.yaml.decode(
    (ROOT / "deploy/kustomize/base/crds/rebalanceplans.yaml").read_bytes()
)
API: Final = "tessera.dev/v1alpha1"
Json = dict[str, Any]


class Scene:
    """Objects of an API server, and messages of a bus."""

    def __init__(self) -> None:
        self.clock = SystemClock()
        self.store = a_store(self.clock)
        self.bus = FakeBus()
        self.kube = FakeKube(self.store)
        self.pods: dict[str, Json] = {}
        self.queues: Sequence[QueueView] = ()
        self._sequence = 0
        access = self.store.access
        everybody = ("system:authenticated",)
        access.give(ADMIN, AuthenticatedUser("admin", groups=(*everybody, MASTERS)))
        tenant = Rule(("get", "list", "watch"), ("pods",), namespaces=(TENANT_OF,))
        access.give(TENANT, AuthenticatedUser("a-tenant", groups=everybody), [tenant])
        for definition in (DEFINITION, PLANS_DEFINITION):
            self.make(CRDS, definition)

    # -- objects

    def make(self, path: str, body: object) -> Json:
        response = self.store.handle("POST", path, body=msgspec.json.encode(body))
        assert response.code in {200, 201}, response.body
        made: Json = msgspec.json.decode(response.body)
        return made

    def patch(self, path: str, body: object) -> None:
        raw = msgspec.json.encode(body)
        answer = self.store.handle("PATCH", path, None, raw, "application/merge-patch+json")
        assert answer.code == 200, answer.body

    def namespace(self, name: str) -> None:
        if self.store.handle("GET", f"/api/v1/namespaces/{name}").code == 404:
            self.make("/api/v1/namespaces", {"metadata": {"name": name}})

    def node(self, item: Json) -> None:
        self.make("/api/v1/nodes", item)

    def pod(self, item: Json) -> Json:
        """A pod as `tests.cli.card_cluster` writes it; it is bound as it says."""
        meta = item["metadata"]
        self.namespace(meta["namespace"])
        self.pods[f"{meta['namespace']}/{meta['name']}"] = item
        path = f"/api/v1/namespaces/{meta['namespace']}/pods"
        made, before = self.make(path, item), meta["uid"]
        meta["uid"] = made["metadata"]["uid"]
        notes = meta.get("annotations", {})
        for key in notes:  # the grant is for this pod's uid
            notes[key] = notes[key].replace(before, meta["uid"])
        self.patch(f"{path}/{meta['name']}", {"metadata": {"annotations": notes}})
        self.patch(f"{path}/{meta['name']}/status", {"status": item["status"]})
        return item

    def quota(self, namespace: str, name: str, spec: Json, status: Json) -> None:
        self.namespace(namespace)
        path = f"/apis/{API}/namespaces/{namespace}/acceleratorquotas"
        kind = {"apiVersion": API, "kind": "AcceleratorQuota"}
        self.make(path, {**kind, "metadata": {"name": name}, "spec": spec})
        self.patch(f"{path}/{name}/status", {"status": status})

    def plan(self, name: str, spec: Json, status: Json | None = None) -> None:
        path = f"/apis/{API}/rebalanceplans"
        kind = {"apiVersion": API, "kind": "RebalancePlan"}
        self.make(path, {**kind, "metadata": {"name": name}, "spec": spec})
        if status:
            self.patch(f"{path}/{name}/status", {"status": status})

    # -- messages

    async def usage(self, node: str, uses: Sequence[ContainerUse]) -> None:
        """What the node's agent reports of its pods."""
        self._sequence += 1
        where, envelope, data = signed(node_usage(node, *uses), CLUSTER, self._sequence)
        await self.bus.publish(where, envelope, data)

    async def event(self, event: AllocationEvent, at: str = "2026-11-24T12:30:00Z") -> None:
        """A step in the life of a pod's allocation."""
        self._sequence += 1
        envelope = Envelope(
            id=f"e{self._sequence}", source="/tessera/scheduler/x", type="t", time=at, epoch=1,
            sequence=self._sequence,
        )  # fmt: skip
        await self.bus.publish(subject(CLUSTER, event), envelope, encode_event(event))


class AggregatedKube(FakeKube):
    """An API server that passes on what the scheduler answers about queues."""

    def __init__(self, scene: Scene, user: AuthenticatedUser) -> None:
        super().__init__(scene.store, user=user)
        self._scene = scene

    async def call(self, verb: Verb, path: str, **more: Any) -> bytes:
        if not path.endswith(f"/{QUEUES_PLURAL}"):
            return await super().call(verb, path, **more)
        found = await listed_queues(self._scene.queues, "", self._readable)
        return msgspec.json.encode(found)

    async def _readable(self, namespaces: Iterable[str]) -> frozenset[str]:
        """Those whose pods the user may list."""
        found = set()
        for namespace in namespaces:
            with suppress(ApiForbidden):
                await super().call(Verb.GET, f"/api/v1/namespaces/{namespace}/pods")
                found.add(namespace)
        return frozenset(found)


SETTINGS: Final = ConsoleSettings(
    kube=KubeSettings(watch_s=100_000, silence_s=200_000), stream=StreamSettings(every_s=0.2),
    answers_s=0.2, look_s=0.2,
)  # fmt: skip


@asynccontextmanager
async def a_console(
    scene: Scene, settings: ConsoleSettings = SETTINGS, *, port: int = 0
) -> AsyncGenerator[RunningConsole]:
    """A console of the scene, which has read it."""

    @asynccontextmanager
    async def kube_of(caller: ConsoleCaller) -> AsyncGenerator[FakeKube]:
        user = scene.store.access.user_of(caller.token)
        yield scene.kube if user is None else AggregatedKube(scene, user)

    environment = ServiceEnvironment(
        kube=scene.kube, bus=scene.bus, clock=scene.clock, registry=REGISTRY,
        settings=replace(settings, http=replace(settings.http, port=port)),
    )  # fmt: skip
    async with open_console(environment, kube_of) as console:
        await console.cluster.ready.wait()
        yield console


# -- a cluster as people have one


NAMES: Final = ("team-a", "team-b", "ml", "research", "web")
DIALECTS: Final = ("hami", "volcano", "koordinator", "gpumanager")
_SIZES: Final = (24, 16, 8, 20, 12, 10, 6, 30)
_WORK: Final = ("infer", "train", "sweep", "notebook", "batch", "serve")


def small_scene() -> Scene:
    """Six nodes, pods of five namespaces, some that wait, quotas and plans."""
    scene = Scene()
    for n in range(1, 7):
        cards = [
            a100(f"gpu-{n}", i, healthy=not (n == 3 and i == 2)) for i in range(8 if n < 5 else 4)
        ]
        scene.node(card_node(f"gpu-{n}", cards))
    count = 0
    for n in range(1, 6):
        for i in range(8 if n < 5 else 4):
            if (n, i) in {(2, 7), (4, 6), (4, 7), (3, 2)}:
                continue
            for place in range((n + i) % 4 + (n != 5)):
                count += 1
                namespace = NAMES[(count * 7 + n) % len(NAMES)]
                size = _SIZES[(count + n) % len(_SIZES)]
                cores = (10, 20, 30, 0)[(count + place) % 4]
                dialect = DIALECTS[count % len(DIALECTS)]
                share = part(f"gpu-{n}", i, size, cores, dialect=dialect)
                scene.pod(holding_pod(namespace, f"{_WORK[count % len(_WORK)]}-{count}", share))
    scene.pod(holding_pod("ml", "llm-70b-0", part("gpu-4", 6, 80, 100, exclusive=True)))
    scene.pod(holding_pod("ml", "llm-70b-1", part("gpu-4", 7, 80, 100, exclusive=True)))
    scene.pod(
        waiting_pod(
            "team-a",
            "big-train",
            90_000,
            "no card is that large: the largest has 80.0 GiB",
        )
    )
    scene.pod(
        waiting_pod(
            "team-b",
            "sweep-9",
            60_000,
            "31 of 40 cards have too little free memory, 1 is unhealthy; best node: gpu-5 with "
            "50.0 GiB free on one card",
        )
    )
    scene.pod(
        waiting_pod(
            "research",
            "notebook-2",
            78_000,
            "quota research/gpus: 96.0 of 100.0 GiB are used, 78.0 GiB more are asked for",
        )
    )
    _quotas(scene)
    _plans(scene)
    return scene


def large_scene(nodes: int = 1000, pods: int = 10_000) -> Scene:
    """Many nodes of eight cards, and many pods."""
    scene = Scene()
    for n in range(nodes):
        scene.node(card_node(f"node-{n:04}", [a100(f"node-{n:04}", i) for i in range(8)]))
    for n in range(pods):
        node, card = f"node-{n % nodes:04}", (n // nodes) % 8
        share = part(node, card, _SIZES[n % 7], 10 + n % 30, dialect=DIALECTS[n % 4])
        scene.pod(holding_pod(f"team-{n % 40:02}", f"{_WORK[n % 6]}-{n}", share))
    return scene


async def report(scene: Scene, turn: float = 0) -> None:
    """Usage of all pods, other figures with each `turn`."""
    uses: dict[str, list[ContainerUse]] = {}
    for n, item in enumerate(scene.pods.values()):
        node = item["spec"].get("nodeName")
        if not node or "annotations" not in item["metadata"]:
            continue
        share = msgspec.json.decode(item["metadata"]["annotations"]["tessera.dev/grant"])["shares"]
        gib = share[0]["memory_bytes"] / 2**30
        cores = share[0]["cores_percent"] or 40
        wave = 0.5 + 0.5 * math.sin(turn / 9 + n)
        busy = 0.02 if n % 7 == 3 else 0.25 + 0.7 * wave
        uses.setdefault(node, []).append(use(
            item, gib * (0.35 + 0.6 * wave), cores * busy, limit=cores,
            throttled=max(0, (wave - 0.9) * 300) if n % 5 == 0 else 0,
        ))  # fmt: skip
    for node, of_node in uses.items():
        await scene.usage(node, of_node)


async def happenings(scene: Scene) -> None:
    """What the bus said lately."""
    for n, (key, item) in enumerate(list(scene.pods.items())[-24:]):
        namespace, _, name = key.partition("/")
        at = f"2026-11-24T12:{30 + n}:0{n % 10}Z"
        if "annotations" in item["metadata"]:
            grant = msgspec.json.decode(
                item["metadata"]["annotations"]["tessera.dev/grant"], type=Grant
            )
            uid = item["metadata"]["uid"]
            granted = AllocationGranted(
                grant=replace(grant, uid=uid, namespace=namespace, name=name)
            )
            await scene.event(granted, at)
        else:
            await scene.event(AllocationRefused(
                namespace=namespace, uid=item["metadata"]["uid"],
                reason=Reason.CARD_INSUFFICIENT_MEMORY,
                message="no node has a card with so much free memory",
            ), at)  # fmt: skip


def _quotas(scene: Scene) -> None:
    def status(memory: int, cores: float, cards: int, seen: int, **more: Any) -> Json:
        return {
            "phase": "Within", "used": {"memory": f"{memory}Gi", "cores": cores, "cards": cards},
            "seen": {"memory": f"{seen}Gi", "cores": cores / 2},
            "hours": {"since": "2026-11-01T00:00:00Z", "granted": 412.5, "seen": 188.2}, **more,
        }  # fmt: skip

    scene.quota(
        "team-a", "gpus",
        {"pool": "prod", "hard": {"memory": "400Gi", "cores": 800},
         "guaranteed": {"memory": "200Gi", "cores": 400}},
        status(290, 420, 18, 160),
    )  # fmt: skip
    scene.quota(
        "team-b", "gpus",
        {"pool": "prod", "hard": {"memory": "300Gi", "cores": 600},
         "guaranteed": {"memory": "250Gi"}},
        status(120, 180, 9, 90, idlePods=2, idle=[
            {"pod": "team-b/notebook-4", "since": "2026-11-24T06:00:00Z", "memory": "16Gi"},
            {"pod": "web/serve-6", "since": "2026-11-24T03:00:00Z", "memory": "8Gi"},
        ]),
    )  # fmt: skip
    scene.quota(
        "research", "gpus", {"hard": {"memory": "100Gi", "cards": 8}},
        status(
            108, 210, 7, 80, message="108.0 GiB of memory are held, 100.0 GiB are allowed",
            waiting={"pods": 1, "memory": "76Gi", "cores": 0, "cards": 1}, phaseSince="",
        ) | {"phase": "Grace", "throttlesAt": "2026-11-24T13:00:00Z"},
    )  # fmt: skip


def _plans(scene: Scene) -> None:
    pods = [item for item in scene.pods.values() if item["spec"].get("nodeName") == "gpu-1"]

    def of(item: Mapping[str, Any]) -> Json:
        meta = item["metadata"]
        return {"namespace": meta["namespace"], "name": meta["name"], "uid": meta["uid"],
                "node": item["spec"]["nodeName"]}  # fmt: skip

    moved, other = pods[0], pods[3]
    waits = scene.pods["team-b/sweep-9"]["metadata"]
    scene.plan("defragment-7f3a", {
        "kind": "Defragment",
        "reason": "two moves free a card of gpu-1 for team-b/sweep-9, which has waited for 12 m",
        "steps": [{"pod": of(moved), "toNode": "gpu-6"}, {"pod": of(other), "toNode": "gpu-6"}],
        "forPod": {"namespace": "team-b", "name": "sweep-9", "uid": waits["uid"]},
        "cost": 84, "gain": 5200,
    })  # fmt: skip
    scene.plan("resize-19bc", {
        "kind": "Resize", "reason": "it has used at most 5.1 GiB of 20.0 GiB in 6 hours",
        "steps": [{"pod": of(other), "container": "main", "card": "GPU-gpu-1-0", "memory": "7Gi"}],
        "cost": 0, "gain": 900, "decision": "approved", "decidedBy": "admin",
    }, {"phase": "Done", "stepsBegun": 1, "stepsDone": 1, "gained": 870,
        "ended": "2026-11-24T11:00:00Z"})  # fmt: skip
