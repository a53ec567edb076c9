"""A pod that asks for shares is looked at for its size first, in every place that reads one, and
what an answer costs grows with the pod and not with its square."""

from __future__ import annotations

from collections.abc import Callable
from time import process_time
from typing import Any

import msgspec
import pytest

from tessera_core.admission import pod_size
from tessera_core.admission.admit import AdmittedPod, admit, strip_results
from tessera_core.admission.isolation import isolation_breach
from tessera_core.explain.decision_log import DecisionLog
from tessera_core.ledger.ledger import Ledger
from tessera_core.placement.placer import Placer
from tessera_core.placement.screen_cache import ScreenCache
from tessera_core.planner import Planner
from tessera_core.recovery.cluster import Cluster
from tessera_core.recovery.estimate import estimate_shares
from tessera_core.registry.registry import load
from tessera_core.scheduling.filter import Filter
from tessera_scheduler.webhook.oversize import unread
from tessera_schema.endpoints.admission_review import ReviewAnswer, decode_review
from tessera_schema.endpoints.extender import ExtenderArgs
from tessera_schema.kube import HostPath, Pod, Volume, VolumeMount
from tessera_schema.verdicts import Verdict
from tessera_testing.builders import a_card, a_container, a_node, a_pod
from tests.dialects.adding import acme
from tests.webhook.setting import (
    NO_TRACE,
    REGISTRY,
    RULES,
    WRITERS,
    Json,
    a_manifest,
    a_review,
    mutated,
    validated,
    why_not,
)  # fmt: skip

ACME = load(extra=[acme])
GPU = {"nvidia.com/gpu": "1"}
SHARES = {**GPU, "nvidia.com/gpumem": "100", "nvidia.com/gpucores": "1"}


def some(count: int, make: Callable[[int], Json]) -> list[Json]:
    return [make(i) for i in range(count)]


def containers(n: int) -> Json:
    return a_manifest(initContainers=some(n - 1, lambda i: {"name": f"i{i}"}))


def volumes(n: int) -> Json:
    return a_manifest(volumes=some(n, lambda i: {"name": f"v{i}", "emptyDir": {}}))


def mounts(n: int) -> Json:
    each = some(n, lambda i: {"name": "v", "mountPath": f"/data/{i}"})
    spec: Json = {"volumes": [{"name": "v", "emptyDir": {}}]}
    return a_manifest(container={"volumeMounts": each}, **spec)


def variables(n: int) -> Json:
    return a_manifest(container={"env": some(n, lambda i: {"name": f"V{i}", "value": "1"})})


def amounts(n: int) -> Json:
    others = {f"example.com/a{i}": "1" for i in range(n // 2 - 3)}
    return a_manifest({**GPU, **others})


def labels(n: int) -> Json:
    pod = a_manifest()
    pod["metadata"]["labels"] = {f"l{i}": "" for i in range(n)}
    return pod


def notes(n: int) -> Json:
    return a_manifest(notes={f"a{i}": "" for i in range(n)})


BOUNDS: dict[str, tuple[Callable[[int], Json], int, str]] = {
    "containers": (containers, pod_size.MOST_CONTAINERS, "spec.containers"),
    "volumes": (volumes, pod_size.MOST_VOLUMES, "spec.volumes"),
    "mounts": (mounts, pod_size.MOST_MOUNTS, "spec.containers[*].volumeMounts"),
    "variables": (variables, pod_size.MOST_VARIABLES, "spec.containers[*].env"),
    "amounts": (amounts, pod_size.MOST_AMOUNTS, "spec.containers[*].resources"),
    "labels": (labels, pod_size.MOST_LABELS, "metadata.labels"),
    "annotations": (notes, pod_size.MOST_ANNOTATIONS, "metadata.annotations"),
}


def planned(pod: Json) -> tuple[Verdict, str]:
    outcome = Planner(REGISTRY, Cluster(nodes=[a_node()])).plan(msgspec.convert(pod, Pod), 0)
    return outcome.verdict, outcome.message


def filtered(pod: Json) -> tuple[Verdict, str]:
    names = msgspec.Raw(b'["n1"]')
    ledger = Ledger()
    ledger.put_node("n1", ())
    answer = Filter(REGISTRY, ledger, Placer(ledger.fleet, ScreenCache()), DecisionLog()).answer(
        ExtenderArgs(msgspec.convert(pod, Pod), names), 0, 0
    )
    return answer.verdict, answer.message


@pytest.mark.parametrize("what", BOUNDS)
def test_beyond_a_bound_it_is_refused_everywhere_with_one_sentence(what: str) -> None:
    make, most, field = BOUNDS[what]
    pod = make(most + 10)
    status, text = why_not(mutated(pod))
    assert status == 422
    begins, _, remedy = text.partition(": a pod that asks for shares has ")
    assert begins in {f"{field}: {most + n}" for n in range(1, 11)}
    assert remedy.startswith(f"{most} ")
    assert why_not(validated(pod)) == (status, text)
    assert filtered(pod) == (Verdict.REJECTED, text)
    assert planned(pod) == (Verdict.REJECTED, text)


@pytest.mark.parametrize("what", BOUNDS)
def test_at_a_bound_it_is_taken(what: str) -> None:
    make, most, _ = BOUNDS[what]
    pod = make(most)
    assert mutated(pod).allowed
    assert filtered(pod)[0] is not Verdict.REJECTED
    assert planned(pod)[0] is not Verdict.REJECTED


@pytest.mark.parametrize("what", BOUNDS)
def test_a_pod_without_requests_may_be_larger(what: str) -> None:
    make, most, _ = BOUNDS[what]
    pod = make(most + 10)
    resources = pod["spec"]["containers"][0]["resources"]
    for written in resources.values():
        del written["nvidia.com/gpu"]
    assert mutated(pod).allowed
    assert validated(pod).allowed
    assert planned(pod)[0] is Verdict.IGNORED


def test_the_same_goes_for_a_debugging_container() -> None:
    own = some(pod_size.MOST_VARIABLES + 1, lambda i: {"name": f"NVIDIA_VISIBLE_DEVICES{i}"})
    pod = a_manifest(ephemeralContainers=[{"name": "d", "env": own}])
    change: Json = {"old": a_manifest(), "operation": "UPDATE", "sub": "ephemeralcontainers"}
    for phase in (mutated, validated):
        assert why_not(phase(pod, **change))[1].startswith("spec.containers[*].env: 2001: ")


def reviewed(text: str, **review: Any) -> ReviewAnswer | None:
    """The answer at once to an object, which need not be a pod."""
    body = msgspec.json.encode(a_review(None, **review))
    request = decode_review(body.replace(b'"object":null', f'"object":{text}'.encode(), 1))
    return unread(RULES, request, NO_TRACE)


def large(names: str, *, scheduler: str = "default-scheduler", size: int = 2_800 << 10) -> str:
    """No pod at all once somebody reads its containers."""
    return (
        f'{{"metadata":{{"labels":{{"a":"b"}},"annotations":{{"x":"{"x" * size}"}}}},'
        f'"spec":{{"schedulerName":"{scheduler}","containers":{{"{names}":"no list"}}}}}}'
    )


def test_a_large_object_is_refused_unread() -> None:
    answer = reviewed(large("nvidia.com/gpu"))
    assert answer is not None
    assert why_not(answer) == (
        422,
        "object: 2801 KiB: a pod that asks for shares has 512 KiB at most; move what is large to "
        "a ConfigMap, or start several pods",
    )
    assert reviewed(large("nvidia.com/gpu", size=pod_size.MOST_BYTES - 400)) is None


def test_many_small_parts_are_refused_unread() -> None:
    parts = "{}," * pod_size.MOST_OBJECTS
    answer = reviewed(f'{{"spec":{{"tolerations":[{parts}{{}}],"x":"nvidia.com/gpu","y":5}}}}')
    assert answer is not None
    assert why_not(answer)[1].startswith("object: 50003: a pod that asks for shares has 50000 ")


@pytest.mark.parametrize("name", sorted(REGISTRY.resources | REGISTRY.result_keys))
def test_it_is_refused_by_each_name_of_tesseras(name: str) -> None:
    answer = reviewed(large(name))
    assert answer is not None
    assert not answer.allowed


@pytest.mark.parametrize("name", ["cpu", "example.com/gpu", "kubernetes.io/hostname"])
def test_a_large_object_without_our_names_is_let_through_unread(name: str) -> None:
    answer = reviewed(large(name))
    assert answer == ReviewAnswer(uid="r-1", allowed=True)


def test_a_large_pod_of_another_scheduler_is_left_alone() -> None:
    answer = reviewed(large("nvidia.com/gpu", scheduler="theirs"))
    assert answer is not None
    assert answer.allowed
    assert "left alone" in answer.warnings[0]
    own = reviewed(large("tessera.dev/grant", scheduler="theirs"))
    assert own is not None
    assert not own.allowed


def test_who_may_write_keys_may_do_so_on_large_pods() -> None:
    answer = reviewed(large("tessera.dev/grant"), operation="UPDATE", groups=[WRITERS])
    assert answer is not None
    assert answer.allowed


def test_who_comes_with_too_many_groups_is_nobody() -> None:
    groups = [WRITERS, *("g" * 1_000 for _ in range(300))]
    answer = reviewed(large("tessera.dev/grant"), operation="UPDATE", groups=groups)
    assert answer is not None
    assert not answer.allowed


def test_many_keys_that_are_not_its_own_to_write_are_refused() -> None:
    """Each would be a step of a patch, and a warning."""
    pod = a_manifest({"cpu": "1"}, notes={f"tessera.dev/{i}": "" for i in range(1_001)})
    assert why_not(mutated(pod))[1].startswith("metadata.annotations: 1001: ")


def test_a_pod_beyond_the_bounds_that_runs_is_counted() -> None:
    many = tuple(a_container({"acme.com/gib": 1}) for _ in range(pod_size.MOST_CONTAINERS + 10))
    nodes = [a_node("n1", annotations={"acme.com/cards": "A0:300"})]
    for holder in (
        a_pod(*many, uid="u", node="n1"),
        a_pod(a_container({"acme.com/gib": 12}), uid="u", node="n1", labels={
            f"l{i}": "" for i in range(pod_size.MOST_LABELS + 1)
        }),
    ):  # fmt: skip
        planner = Planner(ACME, Cluster(nodes=nodes, bound=[holder]))
        entry = planner.ledger.entry("u")
        assert entry is not None
        assert len(entry.grant.shares) == len(holder.spec.containers)


def test_a_long_value_does_not_make_a_long_message() -> None:
    pod = a_manifest(nodeName="n" * 10_000)
    _, text = why_not(mutated(pod))
    assert len(text) < 500


def cost(work: Callable[[], object]) -> float:
    """Processor time of the fastest of some runs."""

    def once() -> float:
        began = process_time()
        work()
        return process_time() - began

    return min(once() for _ in range(3))


def mounting(n: int) -> Callable[[], object]:
    volumes = tuple(Volume(f"v{i}", HostPath(f"/data/{i}")) for i in range(n))
    mounts = tuple(VolumeMount(f"v{i}", f"/data/{i}", read_only=True) for i in range(n))
    container = msgspec.structs.replace(a_container(), volume_mounts=mounts)
    pod = a_pod(container, volumes=volumes)
    return lambda: isolation_breach(pod)


def stripping(n: int) -> Callable[[], object]:
    pod = a_pod(annotations={f"tessera.dev/{i}": "" for i in range(n)})
    return lambda: strip_results(REGISTRY, pod)


def asking(n: int, **which: Any) -> Callable[[], object]:
    pod = a_pod(*(a_container(GPU, GPU) for _ in range(n)), **which)
    assert isinstance(admit(REGISTRY, pod, runs=True), AdmittedPod)
    return lambda: admit(REGISTRY, pod, runs=True)


def asking_first(n: int) -> Callable[[], object]:
    return asking(1, init=tuple(a_container(GPU, GPU) for _ in range(n)))


def reviewing(n: int) -> Callable[[], object]:
    """Everything that is bounded, each `n` times or a part of that."""
    own = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}] * 8
    mounts = [{"name": f"v{i}", "mountPath": f"/d/{i}"} for i in range(8)]
    resources = {"limits": SHARES, "requests": SHARES}
    inits = [
        {"name": f"i{i}", "resources": resources, "env": own, "volumeMounts": mounts}
        for i in range(n)
    ]
    paths = [{"name": f"v{i}", "hostPath": {"path": f"/d/{i}"}} for i in range(4 * n)]
    pod = a_manifest(notes={f"a{i}": "x" * 100 for i in range(4 * n)}, initContainers=inits,
                     volumes=paths)  # fmt: skip
    assert mutated(pod).allowed
    return lambda: (mutated(pod), validated(pod))


def counting(n: int) -> Callable[[], object]:
    ledger = Ledger()
    ledger.put_node("n1", [a_card(f"g{i}", i, vendor="nvidia") for i in range(8)])
    pod = a_pod(*(a_container(GPU, GPU) for _ in range(n)), node="n1")
    counted = estimate_shares(REGISTRY, ledger.fleet, pod)
    assert counted.grant is not None
    assert len(counted.grant.shares) == n
    return lambda: estimate_shares(REGISTRY, ledger.fleet, pod)


@pytest.mark.parametrize(
    ("work", "few"),
    [
        (mounting, 1_000), (stripping, 2_000), (asking, 300), (asking_first, 300), (counting, 300),
        (reviewing, 7),
    ],
)  # fmt: skip
def test_the_cost_grows_with_the_pod_and_not_with_its_square(
    work: Callable[[int], Callable[[], object]], few: int
) -> None:
    """Pods that run are read whatever their size. Sixteen times as much costs 256 times as much
    where it grows with the square."""
    assert cost(work(16 * few)) < 64 * cost(work(few))
