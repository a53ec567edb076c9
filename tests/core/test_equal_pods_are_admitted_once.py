"""The answer to equal pods is remembered, and nothing else."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from msgspec.structs import replace

from tessera_core.admission.admit import AdmittedPod, admit
from tessera_core.admission.cache import MOST_SHAPE, MOST_SHAPES, AdmissionCache
from tessera_core.admission.isolation import isolation_breach, mounts_may_breach
from tessera_core.dialect_kit.contract import Rejected
from tessera_core.registry.registry import load
from tessera_schema.annotation_keys import TRACE_KEY
from tessera_schema.kube import (
    Container,
    EnvVar,
    HostPath,
    Pod,
    PodSpec,
    PodStatus,
    Volume,
    VolumeMount,
)
from tessera_testing.builders import a_container, a_pod
from tests.dialects.adding import acme
from tests.dialects.test_every_dialect import BY_EXAMPLE, pod_of

REGISTRY = load(extra=[acme])
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def named(pod: Pod, name: str, **more: Any) -> Pod:
    """The same pod by another name."""
    metadata = replace(pod.metadata, name=name, uid=f"uid of {name}", resource_version=name)
    return replace(pod, metadata=metadata, **more)


def mounting(pod: Pod, volume: str, path: str | None) -> Pod:
    """The pod with a volume in all of its containers: a folder of the node, or none of it."""
    source = None if path is None else HostPath(path=path)
    mounts = (VolumeMount(name=volume, mount_path="/data"),)
    containers = tuple(replace(c, volume_mounts=mounts) for c in pod.spec.containers)
    volumes = (Volume(name=volume, host_path=source),)
    return replace(pod, spec=replace(pod.spec, volumes=volumes, containers=containers))


@pytest.mark.parametrize(("dialect", "limits"), BY_EXAMPLE)
def test_no_dialect_reads_what_is_left_out(dialect: str, limits: dict[str, Any]) -> None:
    admissions = AdmissionCache(REGISTRY)
    pod = pod_of(dialect, limits)
    first = admissions.admit(pod)
    assert isinstance(first, AdmittedPod), first
    assert first.dialects == (dialect,)
    others = [
        named(pod, "b"),
        named(mounting(pod, "cache-x7z2p", None), "c"),
        named(mounting(pod, "cache-9k4mq", "/data/models"), "d"),
        named(pod, "e", status=PodStatus(phase="Pending")),
    ]
    traced = named(pod, "f")
    notes = {**traced.metadata.annotations, TRACE_KEY: TRACE}
    others.append(replace(traced, metadata=replace(traced.metadata, annotations=notes)))
    for other in others:
        reported = admissions.admit(other)
        assert reported == admit(REGISTRY, other)
        assert isinstance(reported, AdmittedPod)
        assert reported.request.uid == other.metadata.uid
    assert admissions.size[0] == 1


def needs(gib: int = 3, **metadata: Any) -> Pod:
    limits = {"acme.com/gib": gib}
    pod = a_pod(a_container(limits, limits), uid="u")
    return replace(pod, metadata=replace(pod.metadata, **metadata))


def test_what_differs_is_examined() -> None:
    admissions = AdmissionCache(REGISTRY)
    pods = [
        needs(),
        needs(4),
        needs(namespace="other"),
        needs(labels={"tier": "gold"}),
        needs(annotations={"scheduling.x-k8s.io/pod-group": "gang"}),
        a_pod(a_container({}, {})),
    ]
    for pod in pods * 2:
        assert admissions.admit(pod) == admit(REGISTRY, pod)
    assert admissions.size[0] == len(pods)


def test_what_would_defeat_isolation_is_searched_each_time() -> None:
    admissions = AdmissionCache(REGISTRY)
    assert isinstance(admissions.admit(needs()), AdmittedPod)
    wrong = [
        mounting(needs(), "sockets", "/run/containerd"),
        replace(needs(), spec=replace(needs().spec, node_name="n1")),
    ]
    for pod in wrong:
        assert isinstance(admissions.admit(pod), Rejected)
        assert admissions.admit(pod) == admit(REGISTRY, pod)


def test_refusals_and_stripped_keys_are_each_pods_own() -> None:
    admissions = AdmissionCache(REGISTRY)
    own = needs(annotations={"tessera.dev/grant": "{}"})
    reported = admissions.admit(own)
    assert isinstance(reported, AdmittedPod)
    assert "tessera.dev/grant" in reported.warnings[0]
    assert isinstance(admissions.admit(needs(-1)), Rejected)
    assert admissions.size == (0, 0)


def test_what_is_remembered_is_bounded() -> None:
    admissions = AdmissionCache(REGISTRY)
    size = MOST_SHAPE // 2
    for i in range(MOST_SHAPES // size + 50):
        admissions.admit(needs(labels={"n": f"{i:0{size}}"}))
    count, kept = admissions.size
    assert MOST_SHAPES - MOST_SHAPE <= kept <= MOST_SHAPES
    assert count <= MOST_SHAPES // size


def test_large_pods_are_not_cached() -> None:
    admissions = AdmissionCache(REGISTRY)
    env = tuple(EnvVar(name="V", value=f"{i:0{1 << 18}}") for i in range(40))
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for variable in env:
        container = replace(a_container({"acme.com/gib": 1}), env=(variable,))
        assert isinstance(admissions.admit(a_pod(container)), AdmittedPod)
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert admissions.size == (0, 0)
    assert after - before < 1 << 18


def test_many_small_different_pods_take_bounded_memory() -> None:
    """The worst shape for its size: containers of a few letters, each of which needs a card."""
    admissions = AdmissionCache(REGISTRY)
    limits = {"acme.com/gib": 1}
    each = tuple(a_container(limits, limits, name=f"c{i}") for i in range(60))
    tracemalloc.start()
    for i in range(2 * MOST_SHAPES // 5_000):
        reported = admissions.admit(a_pod(*each, labels={"n": str(i)}))
        assert isinstance(reported, AdmittedPod)
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert 50 < admissions.size[0] < 2 * MOST_SHAPES // 5_000
    assert after < 40 * MOST_SHAPES


@pytest.mark.parametrize(
    ("mount", "volume", "may"),
    [
        ("/var/run/secrets/kubernetes.io/serviceaccount", {}, False),
        ("/data//", {}, False),
        ("/data", {"host_path": HostPath(path="/data")}, True),
        ("/etc", {}, True),
        ("/etc/../etc/./ld.so.preload", {}, True),
        ("//usr/local/tessera/", {}, True),
        ("/", {}, True),
    ],
)
def test_mounts_that_may_defeat_isolation_are_recognized(
    mount: str, volume: dict[str, Any], *, may: bool
) -> None:
    container = Container(name="c", volume_mounts=(VolumeMount(name="v", mount_path=mount),))
    volumes = (Volume(name="v", **volume),)
    assert mounts_may_breach(Pod(spec=PodSpec(containers=(container,), volumes=volumes))) is may
    inits = Pod(spec=PodSpec(init_containers=(container,), volumes=volumes))
    assert mounts_may_breach(inits) is may
    if not may:
        assert isolation_breach(inits) is None


def test_a_node_that_a_pod_names_may_defeat_isolation() -> None:
    assert mounts_may_breach(Pod(spec=PodSpec(node_name="n")))
