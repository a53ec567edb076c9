"""Pods of all dialects from creation to their end: they are answered, never refused after having
been admitted, never given more than there is, and leave nothing in the ledger."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from random import Random
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from tessera_core.explain.decision_log import DecisionLog
from tessera_core.inventory.merge import cards_of
from tessera_core.ledger.entries import ObservedPod
from tessera_core.ledger.ledger import Ledger
from tessera_core.placement.placer import Placer
from tessera_core.placement.screen_cache import ScreenCache
from tessera_core.recovery.adopt import adopt
from tessera_core.scheduling.filter import Filter
from tessera_core.trust.grants import Signer, Verifier, published_key
from tessera_schema.cards import Card
from tessera_schema.endpoints.extender import ExtenderFilterResult
from tessera_schema.grants import GRANT_KEY, Grant, encode_grant
from tessera_schema.kube import Node, Pod
from tests.dialects.test_every_dialect import EXAMPLES, NODE
from tests.fuzz.fuzzer import Fuzzer
from tests.webhook.setting import REGISTRY, mutated, patched, validated

Json = dict[str, Any]

SIGNER: Final = Signer(bytes(range(32)))
VERIFIER: Final = Verifier(dict([published_key(SIGNER.public)]))
ASKS: Final = tuple(
    limits for name, example in EXAMPLES.items() if name != "acme" for limits in example.containers
)
NAMES: Final = (
    *sorted({name for limits in ASKS for name in limits}),
    "cpu",
    "nvidia.com/mig-1g.5gb",
)
AMOUNTS: Final = (
    0, 1, "1", 2, 30, 50, 100, 101, 200, 500, 1024, 3000, "16Gi", "500m", "1e3", "1.5", "-1", "",
    "x", 2**31, "9" * 30, None, 1.5, True,
)  # fmt: skip
NOTES: Final = (
    "nvidia.com/use-gputype", "nvidia.com/use-gpuuuid", "nvidia.com/vgpu-mode", GRANT_KEY,
    "hami.io/vgpu-devices-allocated", "hami.io/gpu-scheduler-policy", "volcano.sh/gpu-index",
    "scheduling.koordinator.sh/device-allocated", "scheduling.koordinator.sh/device-allocate-hint",
    "scheduling.koordinator.sh/device-joint-allocate", "tencent.com/predicate-gpu-idx-0",
    "tencent.com/vcuda-core-limit", "iluvatar.ai/predicate-gpu-idx-0", "mthreads.com/gpu-index",
    "tessera.dev/priority", "nvidia.com/priority",
)  # fmt: skip
VALUES: Final = (
    "", "0", "1", "GPU-0", "A10", "nvidia", "mig", "hami-core", "binpack", "{}", "[]", "null",
    '{"gpu":[{"minor":0}]}', '{"gpu":{"allocateStrategy":"Exclusive"}}', "GPU-0,NVIDIA,2048,0:;",
    ",;:", "\u2028", "9" * 40,
)  # fmt: skip
ODD: Final[tuple[Json, ...]] = (
    {"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]},
    {"env": [{"name": "CUDA_TASK_PRIORITY", "value": "x"}]},
    {"securityContext": {"privileged": True}}, {"resources": {}}, {"resources": {"limits": {}}},
    {"volumeMounts": [{"name": "v", "mountPath": "/usr/local"}]}, {"restartPolicy": "Always"},
)  # fmt: skip


def make(random: Random) -> list[Json]:
    """Pods that come one after another."""
    return [_pod(random, i) for i in range(random.choice((1, 4, 8)))]


def _pod(random: Random, number: int) -> Json:
    spec: Json = {
        "containers": [_container(random, f"c{i}") for i in range(random.choice((1, 1, 2, 3)))]
    }
    if random.random() < 0.2:
        spec["initContainers"] = [_container(random, "init")]
    if random.random() < 0.1:
        spec |= random.choice((
            {"hostPID": True}, {"schedulerName": "volcano"}, {"schedulerName": "mine"},
            {"nodeName": "n1"}, {"volumes": [{"name": "v", "hostPath": {"path": "/dev"}}]},
            {"volumes": [{"name": "v", "emptyDir": {}}]}, {"priority": 2**31 - 1},
            {"nodeSelector": {"a": "b"}}, {"schedulingGates": [{"name": "g"}]},
        ))  # fmt: skip
    notes = {
        random.choice(NOTES): random.choice(VALUES) for _ in range(random.choice((0, 0, 1, 3)))
    }
    metadata = {
        "name": f"p{number}",
        "namespace": "team",
        "uid": f"u{number}",
        "annotations": notes,
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _container(random: Random, name: str) -> Json:
    limits: dict[str, Any] = dict(random.choice(ASKS))
    for _ in range(random.choice((0, 0, 1, 2))):
        limits[random.choice(NAMES)] = random.choice(AMOUNTS)
    if random.random() < 0.2:
        limits.pop(random.choice(tuple(limits)), None)
    requests = dict(limits) if random.random() < 0.8 else {}
    made: Json = {"name": name, "image": "i", "resources": {"limits": limits, "requests": requests}}
    if random.random() < 0.2:
        made |= copy.deepcopy(random.choice(ODD))
    return made


class PodFuzzTarget:
    """The ledger that is tested."""

    def __init__(self, nodes: Mapping[str, Node]) -> None:
        """Two nodes with cards of every vendor."""
        self.ledger = Ledger()
        self.filter = Filter(
            REGISTRY, self.ledger, Placer(self.ledger.fleet, ScreenCache()), DecisionLog()
        )
        for name, node in nodes.items():
            self.publish(name, cards_of(REGISTRY, node, {})[0])

    def publish(self, node: str, cards: tuple[Card, ...]) -> None:
        """A node's cards."""
        self.ledger.put_node(node, cards)

    def place(self, body: bytes, now: float) -> bytes:
        """The answer to a filter call."""
        return self.filter(body, now)


NODES: Final = {
    name: replace(NODE, metadata=replace(NODE.metadata, name=name)) for name in ("n1", "n2")
}
_result: Final = msgspec.json.Decoder(ExtenderFilterResult).decode
_pod_of: Final = msgspec.json.Decoder(Pod).decode


def runs(world: type[PodFuzzTarget], pods: list[Json]) -> None:
    """From creation to the end."""
    tested = world(NODES)
    for now, pod in enumerate(pods):
        stored = _created(pod)
        if stored is not None:
            _placed(tested, stored, float(now))
            _within(tested.ledger)
    for entry in list(tested.ledger.entries()):
        tested.ledger.binding_sent(entry.grant.uid)
        tested.ledger.resolve_binding(entry.grant.uid, bound=True)
        tested.ledger.observe(ObservedPod(uid=entry.grant.uid, grant=entry.grant, ended=True), 99.0)
    for name in NODES:
        assert not tested.ledger.charges_on(name), "left in the books"


def _created(pod: Json) -> Json | None:
    """As both phases of admission leave it; None where it is refused."""
    try:
        answer = mutated(pod)
    except msgspec.DecodeError:
        return None
    if not answer.allowed:
        assert answer.status is not None
        assert answer.status.message, "refused without a word"
        return None
    stored = patched(pod, answer)
    again = validated(stored)
    assert again.allowed, f"refused as it was completed: {again.status}"
    assert not mutated(stored).patch, "not complete after one look"
    return stored


def _placed(tested: PodFuzzTarget, stored: Json, now: float) -> None:
    body = {"Pod": stored, "Nodes": None, "NodeNames": list(NODES)}
    _result(tested.place(msgspec.json.encode(body), now))
    entry = tested.ledger.entry(stored["metadata"]["uid"])
    if entry is None:
        return
    grant: Grant = entry.grant
    pod = copy.deepcopy(stored)
    pod["metadata"]["annotations"][GRANT_KEY] = SIGNER.sign(encode_grant(grant))
    pod["spec"]["nodeName"] = grant.node
    read = adopt(REGISTRY, _pod_of(msgspec.json.encode(pod)), _cards(grant.node), verifier=VERIFIER)
    assert read.grant == grant, f"read back otherwise: {read}"


def _cards(node: str) -> tuple[Card, ...]:
    return cards_of(REGISTRY, NODES[node], {})[0]


def _within(ledger: Ledger) -> None:
    """By sums of the grants, without the ledger's own arithmetic."""
    for node in NODES:
        for card in _cards(node):
            shares = [
                share
                for entry in ledger.on(node)
                for share in entry.grant.shares
                if share.card == card.id and share.role.name == "APP"
            ]
            assert sum(s.memory_bytes for s in shares) <= card.memory_bytes, f"memory of {card.id}"
            assert sum(s.cores_percent for s in shares) <= card.cores_percent + 1e-6, "cores"
            assert len(shares) <= card.slots, f"slots of {card.id}"
            assert len(shares) < 2 or not any(s.exclusive for s in shares), f"{card.id} is shared"


def pods(world: type[PodFuzzTarget] = PodFuzzTarget) -> Fuzzer:
    """With the ledger that is tested."""
    return Fuzzer("pods", make, lambda made: runs(world, made), 400)
