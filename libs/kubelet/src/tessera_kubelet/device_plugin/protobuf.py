"""The device plugin protocol's words, and its messages as nouns."""

from __future__ import annotations

from collections.abc import Sequence

from tessera_kubelet.device_plugin.types import ContainerAllocation, DeviceNode, PluginDevice
from tessera_kubelet.proto import deviceplugin_pb2 as pb
from tessera_schema.injections import Mount

VERSION = "v1beta1"
REGISTRATION_SERVICE = "v1beta1.Registration"
PLUGIN_SERVICE = "v1beta1.DevicePlugin"
KUBELETS_SOCKET = "kubelet.sock"
"""In the folder that plugins' sockets are in."""

OPTIONS = pb.DevicePluginOptions(pre_start_required=True, get_preferred_allocation_available=True)
"""Tessera's, sent in both places: newer kubelets read the one, older ones the other."""

_HEALTHY = "Healthy"
_UNHEALTHY = "Unhealthy"


def devices_message(devices: Sequence[PluginDevice]) -> pb.ListAndWatchResponse:
    """The whole list."""
    return pb.ListAndWatchResponse(devices=map(_device_message, devices))


def devices(sent: pb.ListAndWatchResponse) -> tuple[PluginDevice, ...]:
    """The whole list; an id that comes twice counts once."""
    return tuple({device.id: _device(device) for device in sent.devices}.values())


def allocation_message(given: ContainerAllocation) -> pb.ContainerAllocateResponse:
    """What one container gets."""
    return pb.ContainerAllocateResponse(
        envs=given.env,
        mounts=[
            pb.Mount(container_path=m.destination, host_path=m.source, read_only=m.read_only)
            for m in given.mounts
        ],
        devices=[
            pb.DeviceSpec(container_path=d.path, host_path=d.source, permissions=d.permissions)
            for d in given.devices
        ],
        annotations=given.annotations,
        cdi_devices=[pb.CdiDevice(name=name) for name in given.cdi_devices],
    )


def allocation(sent: pb.ContainerAllocateResponse) -> ContainerAllocation:
    """What one container gets."""
    return ContainerAllocation(
        env=dict(sent.envs),
        mounts=tuple(
            Mount(destination=m.container_path, source=m.host_path, read_only=m.read_only)
            for m in sent.mounts
        ),
        devices=tuple(
            DeviceNode(path=d.container_path, source=d.host_path, permissions=d.permissions)
            for d in sent.devices
        ),
        annotations=dict(sent.annotations),
        cdi_devices=tuple(device.name for device in sent.cdi_devices),
    )


def _device_message(device: PluginDevice) -> pb.Device:
    message = pb.Device(id=device.id, health=_HEALTHY if device.healthy else _UNHEALTHY)
    if device.numa:
        message.topology.nodes.extend(pb.NumaNode(id=node) for node in device.numa)
    return message


def _device(sent: pb.Device) -> PluginDevice:
    numa = tuple(node.id for node in sent.topology.nodes)
    return PluginDevice(sent.id, healthy=sent.health == _HEALTHY, numa=numa)
