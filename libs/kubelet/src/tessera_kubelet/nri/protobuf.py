"""Between NRI's messages and our nouns. Protobuf goes no further than here and its callers."""

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


def sandbox(told: pb.PodSandbox) -> PodSandbox:
    """A pod as it came in."""
    return PodSandbox(
        id=told.id,
        name=told.name,
        uid=told.uid,
        namespace=told.namespace,
        labels=dict(told.labels),
        annotations=dict(told.annotations),
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


def container(told: pb.Container) -> ContainerInfo:
    """A container as it came in. A state of a later NRI is unknown."""
    return ContainerInfo(
        id=told.id,
        sandbox_id=told.pod_sandbox_id,
        name=told.name,
        state=_STATES.get(told.state, NriContainerState.UNKNOWN),
        labels=dict(told.labels),
        annotations=dict(told.annotations),
        args=tuple(told.args),
        env=dict(_pair(entry) for entry in told.env),
        set_twice=_repeated(_pair(entry)[0] for entry in told.env),
        mounts=tuple(_mount(m) for m in told.mounts),
        devices=tuple(_device(d) for d in told.linux.devices),
        cgroup=told.linux.cgroups_path,
        pid=told.pid,
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


def adjustment(told: pb.ContainerAdjustment) -> Adjustment:
    """An adjustment as it came in. Raises Unsayable where it takes something away."""
    asked = Adjustment(
        env={e.key: e.value for e in told.env},
        mounts=tuple(_mount(m) for m in told.mounts),
        devices=tuple(_device(d) for d in told.linux.devices),
        cdi=tuple(d.name for d in told.CDI_devices),
        annotations=dict(told.annotations),
    )
    _only_adds(asked)
    return asked


def adjustment_message(asked: Adjustment) -> pb.ContainerAdjustment:
    """An adjustment as it goes out. Raises Unsayable where a name would be read as: take this
    away."""
    _only_adds(asked)
    return pb.ContainerAdjustment(
        env=[pb.KeyValue(key=name, value=value) for name, value in asked.env.items()],
        mounts=[_mount_message(m) for m in asked.mounts],
        linux=pb.LinuxContainerAdjustment(devices=[_device_message(d) for d in asked.devices]),
        CDI_devices=[pb.CDIDevice(name=name) for name in asked.cdi],
        annotations=asked.annotations,
    )


def _only_adds(asked: Adjustment) -> None:
    named: Mapping[str, Iterable[str]] = {
        "env": asked.env,
        "mounts": (m.destination for m in asked.mounts),
        "devices": (d.path for d in asked.devices),
        "annotations": asked.annotations,
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


def _mount(told: pb.Mount) -> Mount:
    return Mount(destination=told.destination, source=told.source, read_only="ro" in told.options)


def _mount_message(mount: Mount) -> pb.Mount:
    return pb.Mount(
        destination=mount.destination,
        type="bind",
        source=mount.source,
        options=["rbind", "rprivate", "nosuid", "nodev", "ro" if mount.read_only else "rw"],
    )


def _device(told: pb.LinuxDevice) -> NriDevice:
    return NriDevice(path=told.path, type=told.type, major=told.major, minor=told.minor)


def _device_message(device: NriDevice) -> pb.LinuxDevice:
    return pb.LinuxDevice(
        path=device.path, type=device.type, major=device.major, minor=device.minor
    )
