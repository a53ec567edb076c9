"""What equal pods were told is remembered, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tessera_core.admission import Admission, admit
from tessera_core.dialect import Rejected
from tessera_core.registry import load
from tessera_core.remembered import MAX_SHAPES, Admissions
from tessera_schema.keys import TRACE_KEY
from tessera_schema.kube import HostPath, Pod, PodStatus, Volume, VolumeMount
from tessera_testing.builders import a_container, a_pod
from tests.dialects.adding import acme
from tests.dialects.test_every_dialect import BY_SAMPLE

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


class Counting(Admissions):
    """Tells how many answers it keeps."""

    @property
    def kept(self) -> int:
        return len(self._known)


@pytest.mark.parametrize(("dialect", "limits"), BY_SAMPLE)
def test_no_dialect_reads_what_is_left_out(dialect: str, limits: dict[str, Any]) -> None:
    admissions = Counting(REGISTRY)
    pod = a_pod(a_container(limits, limits), uid="u")
    first = admissions.admit(pod)
    assert isinstance(first, Admission), first
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
        told = admissions.admit(other)
        assert told == admit(REGISTRY, other)
        assert isinstance(told, Admission)
        assert told.request.uid == other.metadata.uid
    assert admissions.kept == 1


def asks(gib: int = 3, **metadata: Any) -> Pod:
    limits = {"acme.com/gib": gib}
    pod = a_pod(a_container(limits, limits), uid="u")
    return replace(pod, metadata=replace(pod.metadata, **metadata))


def test_what_differs_is_looked_at() -> None:
    admissions = Counting(REGISTRY)
    pods = [
        asks(),
        asks(4),
        asks(namespace="other"),
        asks(labels={"tier": "gold"}),
        asks(annotations={"scheduling.x-k8s.io/pod-group": "gang"}),
        a_pod(a_container({}, {})),
    ]
    for pod in pods * 2:
        assert admissions.admit(pod) == admit(REGISTRY, pod)
    assert admissions.kept == len(pods)


def test_what_would_defeat_isolation_is_looked_for_each_time() -> None:
    admissions = Admissions(REGISTRY)
    assert isinstance(admissions.admit(asks()), Admission)
    wrong = [
        mounting(asks(), "sockets", "/run/containerd"),
        replace(asks(), spec=replace(asks().spec, node_name="n1")),
    ]
    for pod in wrong:
        assert isinstance(admissions.admit(pod), Rejected)
        assert admissions.admit(pod) == admit(REGISTRY, pod)


def test_refusals_and_stripped_keys_are_each_pods_own() -> None:
    admissions = Counting(REGISTRY)
    own = asks(annotations={"tessera.dev/grant": "{}"})
    told = admissions.admit(own)
    assert isinstance(told, Admission)
    assert "tessera.dev/grant" in told.warnings[0]
    assert isinstance(admissions.admit(asks(-1)), Rejected)
    assert admissions.kept == 0


def test_what_is_remembered_is_bounded() -> None:
    admissions = Counting(REGISTRY)
    for i in range(MAX_SHAPES + 5):
        admissions.admit(asks(labels={"n": str(i)}))
    assert admissions.kept == MAX_SHAPES
