"""Asks kubelet which container has which ids, after the fact.

Kubelet names no uid: a pod that was created again under its name looks the same here. A container
is listed as soon as kubelet has stored what Allocate answered; init containers that are to end are
never listed.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from google.protobuf.message import DecodeError
from msgspec import Struct

from tessera_kubelet.errors import LinkGarbled
from tessera_kubelet.grpc_channel import GrpcChannel, open_channel
from tessera_kubelet.proto import podresources_pb2 as pb

SERVICE = "v1.PodResourcesLister"
_MESSAGE_BYTES = 64 << 20


class PodHolding(Struct, frozen=True, kw_only=True):
    """The devices of a pod's containers."""

    namespace: str
    name: str
    containers: Mapping[str, Mapping[str, frozenset[str]]]
    """By container and resource, the ids."""


class PodResources:
    """Reads kubelet's PodResources API."""

    def __init__(self, channel: GrpcChannel, call_s: float) -> None:
        """Made by `open_pod_resources`."""
        self._channel = channel
        self._call_s = call_s

    async def list(self) -> tuple[PodHolding, ...]:
        """All pods that kubelet has, also ones that have ended, by older kubelets. Raises
        CallFailed, CallTimedOut, SocketNotListening, LinkLost."""
        method = f"/{SERVICE}/List"
        answer = await self._channel.call(method, b"", within_s=self._call_s)
        try:
            response = pb.ListPodResourcesResponse.FromString(answer)
        except DecodeError as e:
            raise LinkGarbled(f"not an answer to List: {e}") from e
        return tuple(map(_holding, response.pod_resources))


@asynccontextmanager
async def open_pod_resources(socket: Path, call_s: float) -> AsyncGenerator[PodResources]:
    """Ask the kubelet whose socket this is, while the block lasts; it need not be there yet.
    `call_s`: seconds that an answer may take."""
    async with open_channel(socket, message_bytes=_MESSAGE_BYTES) as channel:
        yield PodResources(channel, call_s)


def message(holdings: Iterable[PodHolding]) -> pb.ListPodResourcesResponse:
    """The message as a kubelet of 1.34 sends it: every id by itself."""
    return pb.ListPodResourcesResponse(
        pod_resources=[
            pb.PodResources(
                name=holding.name,
                namespace=holding.namespace,
                containers=[
                    pb.ContainerResources(
                        name=name,
                        devices=[
                            pb.ContainerDevices(resource_name=resource, device_ids=[id_])
                            for resource, ids in resources.items()
                            for id_ in sorted(ids)
                        ],
                    )
                    for name, resources in holding.containers.items()
                ],
            )
            for holding in holdings
        ]
    )


def _holding(pod: pb.PodResources) -> PodHolding:
    containers: dict[str, dict[str, frozenset[str]]] = {}
    for container in pod.containers:
        has = containers.setdefault(container.name, {})
        for devices in container.devices:
            has[devices.resource_name] = has.get(devices.resource_name, frozenset()).union(
                devices.device_ids
            )
    return PodHolding(namespace=pod.namespace, name=pod.name, containers=containers)
