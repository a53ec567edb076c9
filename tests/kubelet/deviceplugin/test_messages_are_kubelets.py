"""Bytes as kubelet sends and takes them, written by hand from its field numbers."""

from pathlib import Path

import pytest

from tessera_kubelet.device_plugin import protobuf
from tessera_kubelet.device_plugin.types import ContainerAllocation, DeviceNode, PluginDevice
from tessera_kubelet.errors import CallFailed, GrpcCode
from tessera_kubelet.grpc_channel import open_channel
from tessera_kubelet.proto import deviceplugin_pb2 as pb
from tessera_schema.injections import Mount
from tests.kubelet.deviceplugin.handmade import number, text
from tests.kubelet.deviceplugin.nodes import CARD, a_node

SIZE = 1 << 20


def test_a_registration() -> None:
    asked = pb.RegisterRequest(
        version=protobuf.VERSION,
        endpoint="a.sock",
        resource_name="v.example/c",
        options=protobuf.OPTIONS,
    )
    options = number(1, 1) + number(2, 1)
    assert asked.SerializeToString() == (
        text(1, "v1beta1") + text(2, "a.sock") + text(3, "v.example/c") + text(4, options)
    )


def test_devices() -> None:
    near = text(1, b"") + text(1, number(1, 1))
    golden = text(
        1, text(1, "c0") + text(2, "Healthy") + text(3, near)
    ) + text(1, text(1, "c1") + text(2, "Unhealthy"))  # fmt: skip
    devices = (PluginDevice("c0", numa=(0, 1)), PluginDevice("c1", healthy=False))
    assert protobuf.devices_message(devices).SerializeToString() == golden
    assert protobuf.devices(pb.ListAndWatchResponse.FromString(golden)) == devices


@pytest.mark.parametrize("health", ["", "healthy", "Sick"])
def test_whatever_is_not_healthy_is_unhealthy(health: str) -> None:
    golden = text(1, text(1, "c0") + text(2, health))
    sent = pb.ListAndWatchResponse.FromString(golden)
    assert protobuf.devices(sent) == (PluginDevice("c0", healthy=False),)


def test_what_a_container_gets() -> None:
    given = ContainerAllocation(
        env={"A": "1"},
        mounts=(Mount(destination="/in", source="/out"),),
        devices=(DeviceNode(path="/dev/in", source="/dev/out", permissions="rwm"),),
        annotations={"k": "v"},
        cdi_devices=("v.example/c=0",),
    )
    golden = (
        text(1, text(1, "A") + text(2, "1"))
        + text(2, text(1, "/in") + text(2, "/out") + number(3, 1))
        + text(3, text(1, "/dev/in") + text(2, "/dev/out") + text(3, "rwm"))
        + text(4, text(1, "k") + text(2, "v"))
        + text(5, text(1, "v.example/c=0"))
    )
    assert protobuf.allocation_message(given).SerializeToString() == golden
    assert protobuf.allocation(pb.ContainerAllocateResponse.FromString(golden)) == given


def test_requests_are_kubelets() -> None:
    ids = text(1, "c0") + text(1, "c1")
    allocate = pb.AllocateRequest.FromString(text(1, ids))
    assert list(allocate.container_requests[0].devices_ids) == ["c0", "c1"]
    assert list(pb.PreStartContainerRequest.FromString(ids).devices_ids) == ["c0", "c1"]
    preferred = pb.PreferredAllocationRequest.FromString(
        text(1, text(1, "c0") + text(1, "c1") + text(2, "c1") + number(3, 2))
    ).container_requests[0]
    assert list(preferred.available_device_ids) == ["c0", "c1"]
    assert list(preferred.must_include_device_ids) == ["c1"]
    assert preferred.allocation_size == 2
    answer = pb.PreferredAllocationResponse()
    answer.container_responses.add(device_ids=["c1"])
    assert answer.SerializeToString() == text(1, text(1, "c1"))


@pytest.mark.parametrize("method", ["Allocate", "PreStartContainer", "GetPreferredAllocation"])
async def test_garbage_is_refused_and_the_plugin_goes_on(folder: Path, method: str) -> None:
    async with a_node(folder) as (kubelet, _):
        own = folder / kubelet.registrations[0][1]
        async with open_channel(own, message_bytes=SIZE) as channel:
            with pytest.raises(CallFailed, match=f"not a .*{method[-8:]}.*Request") as failed:
                await channel.call(f"/{protobuf.PLUGIN_SERVICE}/{method}", b"\xff", within_s=60)
        assert failed.value.code == GrpcCode.INVALID_ARGUMENT
        await kubelet.pods.admit("team", "job", {"main": {CARD: 1}})


async def test_calls_to_what_is_not_there_fail(folder: Path) -> None:
    async with a_node(folder) as (kubelet, _):
        own = folder / kubelet.registrations[0][1]
        async with open_channel(own, message_bytes=SIZE) as channel:
            with pytest.raises(CallFailed) as failed:
                await channel.call(f"/{protobuf.PLUGIN_SERVICE}/NotYet", b"", within_s=60)
    assert failed.value.code == GrpcCode.UNIMPLEMENTED
