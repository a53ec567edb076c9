"""Converts NRI's messages from and to `types`. Only this module and its callers see protobuf."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from tessera_kubelet.errors import AdjustmentUnsupported
from tessera_kubelet.nri.types import (
    Adjustment,
    ContainerInfo,
    NriContainerState,
    NriDevice,
    NriEvent,
    PodSandbox,
)
from tessera_kubelet.proto import nri_pb2 as pb
from tessera_schema.injections import Mount

PLUGIN_CONNECTION = 1
PLUGIN_SERVICE = "nri.pkg.api.v1alpha1.Plugin"
RUNTIME_CONNECTION = 2
RUNTIME_SERVICE = "nri.pkg.api.v1alpha1.Runtime"

_STATES: dict[int, NriContainerState] = {state.value: state for state in NriContainerState}
_REMOVES = "-"
"""NRI reads a name that begins so as: take this away."""


def mask(events: Iterable[NriEvent]) -> int:
    """The bits that subscribe to `events`."""
    return sum(1 << (event - 1) for event in set(events))


def sandbox(sent: pb.PodSandbox) -> PodSandbox:
    """A pod as it came in."""
    return PodSandbox(
        id=sent.id,
        name=sent.name,
        uid=sent.uid,
        namespace=sent.namespace,
        labels=dict(sent.labels),
        annotations=dict(sent.annotations),
    )


def sandbox_message(pod: PodSandbox) -> pb.PodSandbox:
    """A pod as it goes out."""
    return pb.PodSandbox(
        id=pod.id,
        name=pod.name,
        uid=pod.uid,
        namespace=pod.namespace,
        labels=pod.labels,
        annotations=pod.annotations,
    )


def container(sent: pb.Container) -> ContainerInfo:
    """A container as it came in. A state of a later NRI is unknown."""
    return ContainerInfo(
        id=sent.id,
        sandbox_id=sent.pod_sandbox_id,
        name=sent.name,
        state=_STATES.get(sent.state, NriContainerState.UNKNOWN),
        labels=dict(sent.labels),
        annotations=dict(sent.annotations),
        args=tuple(sent.args),
        env=dict(_pair(entry) for entry in sent.env),
        set_twice=_repeated(_pair(entry)[0] for entry in sent.env),
        mounts=tuple(_mount(m) for m in sent.mounts),
        devices=tuple(_device(d) for d in sent.linux.devices),
        cgroup=sent.linux.cgroups_path,
        pid=sent.pid,
    )


def container_message(of: ContainerInfo) -> pb.Container:
    """A container as it goes out."""
    return pb.Container(
        id=of.id,
        pod_sandbox_id=of.sandbox_id,
        name=of.name,
        state=pb.ContainerState.ValueType(of.state),
        labels=of.labels,
        annotations=of.annotations,
        args=of.args,
        env=[
            *(f"{name}={of.env[name]}" for name in sorted(of.set_twice)),
            *(f"{name}={value}" for name, value in of.env.items()),
        ],
        mounts=[_mount_message(m) for m in of.mounts],
        linux=pb.LinuxContainer(
            devices=[_device_message(d) for d in of.devices], cgroups_path=of.cgroup
        ),
        pid=of.pid,
    )


def adjustment(sent: pb.ContainerAdjustment) -> Adjustment:
    """An adjustment as it came in. Raises AdjustmentUnsupported where it takes something away."""
    given = Adjustment(
        env={e.key: e.value for e in sent.env},
        mounts=tuple(_mount(m) for m in sent.mounts),
        devices=tuple(_device(d) for d in sent.linux.devices),
        cdi=tuple(d.name for d in sent.CDI_devices),
        annotations=dict(sent.annotations),
    )
    _only_adds(given)
    return given


def adjustment_message(given: Adjustment) -> pb.ContainerAdjustment:
    """An adjustment as it goes out. Raises AdjustmentUnsupported where a name
    would be read as: take this away."""
    _only_adds(given)
    return pb.ContainerAdjustment(
        env=[pb.KeyValue(key=name, value=value) for name, value in given.env.items()],
        mounts=[_mount_message(m) for m in given.mounts],
        linux=pb.LinuxContainerAdjustment(devices=[_device_message(d) for d in given.devices]),
        CDI_devices=[pb.CDIDevice(name=name) for name in given.cdi],
        annotations=given.annotations,
    )


def _only_adds(given: Adjustment) -> None:
    named: Mapping[str, Iterable[str]] = {
        "env": given.env,
        "mounts": (m.destination for m in given.mounts),
        "devices": (d.path for d in given.devices),
        "annotations": given.annotations,
    }
    for what, names in named.items():
        for name in names:
            if name.startswith(_REMOVES):
                raise AdjustmentUnsupported(
                    f'{what}: "{name}" begins with "{_REMOVES}", by which NRI means to remove it;'
                    " only additions are supported"
                )


def _pair(entry: str) -> tuple[str, str]:
    name, _, value = entry.partition("=")
    return name, value


def _repeated(names: Iterable[str]) -> frozenset[str]:
    return frozenset(name for name, count in Counter(names).items() if count > 1)


def _mount(sent: pb.Mount) -> Mount:
    return Mount(destination=sent.destination, source=sent.source, read_only="ro" in sent.options)


def _mount_message(mount: Mount) -> pb.Mount:
    return pb.Mount(
        destination=mount.destination,
        type="bind",
        source=mount.source,
        options=["rbind", "rprivate", "nosuid", "nodev", "ro" if mount.read_only else "rw"],
    )


def _device(sent: pb.LinuxDevice) -> NriDevice:
    return NriDevice(path=sent.path, type=sent.type, major=sent.major, minor=sent.minor)


def _device_message(device: NriDevice) -> pb.LinuxDevice:
    return pb.LinuxDevice(
        path=device.path, type=device.type, major=device.major, minor=device.minor
    )
