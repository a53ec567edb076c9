"""`tessera place` on gangs and queues of any shape: an answer or a sentence, never a traceback; and
of a gang that is not placed no pod has a card."""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final

from tessera_cli.__main__ import run
from tests.cli.cluster import bound, node, pod, text
from tests.fuzz.fuzzer import Fuzzer

KOORD: Final = "gang.scheduling.koordinator.sh/"
GROUPS: Final = (
    "scheduling.volcano.sh/v1beta1", "scheduling.sigs.k8s.io/v1alpha1",
    "scheduling.x-k8s.io/v1alpha1", "scheduling.k8s.io/v1beta1",
)  # fmt: skip
QUEUES: Final = (
    ("scheduling.volcano.sh/v1beta1", "Queue"), ("scheduling.sigs.k8s.io/v1alpha1", "ElasticQuota"),
    ("scheduling.x-k8s.io/v1alpha1", "ElasticQuota"),
)  # fmt: skip
NOTES: Final = (
    "scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name", KOORD + "name",
    KOORD + "name", KOORD + "min-available", KOORD + "groups", KOORD + "match-policy",
    KOORD + "mode", KOORD + "waiting-time", KOORD + "total-number",
    KOORD + "network-topology-spec", "kueue.x-k8s.io/pod-group-total-count",
    "volcano.sh/task-spec", "volcano.sh/task-index", "scheduling.volcano.sh/queue-name",
)  # fmt: skip
LABELS: Final = (
    "pod-group.scheduling.sigs.k8s.io", "pod-group.scheduling.sigs.k8s.io/name",
    "scheduling.x-k8s.io/pod-group", "kueue.x-k8s.io/pod-group-name",
    "quota.scheduling.koordinator.sh/name", "quota.scheduling.koordinator.sh/parent",
)  # fmt: skip
TEXTS: Final = (
    "a", "a", "a", "b", "b", "2", "2", "3", "0", "\u00b2", "", "q", "r", "only-waiting", "1h",
    "NonStrict", '["default/a", "default/b"]', '["x"]', "{", '{"gatherStrategy": 5}',
)  # fmt: skip
AMOUNTS: Final[Sequence[Any]] = ({"nvidia.com/gpu": 1}, {"nvidia.com/gpu": 3}, {"cpu": "2"}, {})
WELL: Final[dict[str, Sequence[Any]]] = {
    "minMember": (0, 1, 2, 3), "minTaskMember": ({"a": 1}, {"a": 1, "b": 1}),
    "queue": ("q", "r", "default"), "weight": (1, 2), "priority": (0, 1), "parent": ("q", "r", ""),
    "capability": AMOUNTS, "deserved": AMOUNTS, "min": AMOUNTS, "max": AMOUNTS,
    "guarantee": ({"resource": {"nvidia.com/gpu": 1}},), "scheduleTimeoutSeconds": (5,),
    "schedulingPolicy": ({"gang": {"minCount": 2}}, {"basic": {}}),
    "schedulingConstraints": ({"topology": [{"key": "rack"}]},), "disruptionMode": ("all", {}),
    "networkTopology": ({"mode": "soft"}, {"mode": "hard"}), "dequeueStrategy": ("fifo",),
}  # fmt: skip
BADLY: Final[Sequence[Any]] = (
    -1,
    "x",
    None,
    [],
    {},
    True,
    2**70,
    1.5,
    {"cpu": "x"},
    {"cpu": []},
    ["a"],
)
ASKS: Final[Sequence[Any]] = (
    {"nvidia.com/gpu": 1}, {"nvidia.com/gpu": 1}, {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 4000},
    {"cpu": "1"}, {}, {"nvidia.com/gpu": "1.5"}, {"nvidia.com/gpu": 3},
)  # fmt: skip
Run = Callable[[Sequence[str]], int]


def make(random: Random) -> str:
    """A cluster of two nodes with up to a dozen pods, groups and queues."""
    nodes = [node("n1", cards=random.randrange(4)), node("n2", cards=2, capacity={"cpu": "2"})]
    nodes[0]["metadata"]["labels"] = {"rack": "r"}
    made = [_thing(random) for _ in range(random.randrange(1, 12))]
    return text(*nodes, *made)


def _thing(random: Random) -> dict[str, Any]:
    of = random.choice((_group, _queue, _job, _pod, _pod, _pod))
    return of(random)


def _group(random: Random) -> dict[str, Any]:
    return {
        "apiVersion": random.choice(GROUPS), "kind": "PodGroup",
        "metadata": {"name": random.choice("ab"), "annotations": _keys(random, NOTES)},
        "spec": {"minMember": random.randrange(4), **_spec(random)},
    }  # fmt: skip


def _queue(random: Random) -> dict[str, Any]:
    api, kind = random.choice(QUEUES)
    return {
        "apiVersion": api, "kind": kind, "spec": _spec(random),
        "metadata": {"name": random.choice("qr"), "labels": _keys(random, LABELS)},
        "status": random.choice(({}, {}, {"state": "Closed"})),
    }  # fmt: skip


def _job(random: Random) -> dict[str, Any]:
    template = {"spec": pod(limits=random.choice(ASKS))["spec"]}
    task = {"replicas": random.randrange(4), "minAvailable": random.choice((None, 1, 3))}
    tasks = [{**task, "template": template} for _ in range(random.randrange(3))]
    spec = {"minAvailable": random.choice((None, 0, 2, 9)), "tasks": tasks}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job",
        "metadata": {"name": random.choice("cdef")}, "spec": spec,
    }  # fmt: skip


def _pod(random: Random) -> dict[str, Any]:
    name = f"p{random.randrange(10**6)}"
    if random.random() < 0.2:
        made = bound(name, f"GPU-n1-{random.randrange(3)},NVIDIA,4000,10:;")
        made["metadata"]["annotations"] |= _keys(random, NOTES)
        made["status"]["phase"] = random.choice(("Running", "Succeeded", "Failed"))
        return made
    keys = {"annotations": _keys(random, NOTES), "labels": _keys(random, LABELS)}
    made = pod(name, random.choice(ASKS), **keys)
    made["spec"] |= random.choice((
        {}, {}, {"schedulingGroup": {"podGroupName": "a"}}, {"schedulerName": "x"},
        {"schedulingGates": [{"name": "x/y"}]}, {"priority": 1},
    ))  # fmt: skip
    return made


def _keys(random: Random, names: Sequence[str]) -> dict[str, str]:
    return {random.choice(names): random.choice(TEXTS) for _ in range(random.randrange(4))}


def _spec(random: Random) -> dict[str, Any]:
    names = random.sample(sorted(WELL), random.randrange(4))
    return {n: random.choice(WELL[n] if random.random() < 0.97 else BADLY) for n in names}


def check(of: Run, manifests: str) -> None:
    """One call of the command."""
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
    with (
        tempfile.NamedTemporaryFile("w", suffix=".json") as file,
        contextlib.redirect_stdout(out), contextlib.redirect_stderr(err),
    ):  # fmt: skip
        file.write(manifests)
        file.flush()
        status = of(["place", "-f", file.name, "--why", "-o", "json"])
    said = err.getvalue()
    assert status in {0, 1, 2}, f"exit status {status}"
    assert "Traceback" not in said, said[-2000:]
    assert "internal error" not in said, said[-2000:]
    if status == 1:
        assert said
        return
    out.seek(0)
    answer = json.loads(out.read())
    stuck = {g["id"].partition("/")[2] for g in answer.get("gangs", ()) if not g["placed"]}
    for each in answer["pods"]:
        _, gang, why = each["message"].partition("gang ")
        if each["verdict"] == "placed" and gang:
            assert why not in stuck, f"{each['name']} is placed, and {why} is not"


def gangs(of: Run = run) -> Fuzzer:
    """With the command that is tested."""
    return Fuzzer("gangs", make, lambda manifests: check(of, manifests), 150)
