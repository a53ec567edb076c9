"""kubelet's own list of pods that have started and not ended, with what its device plugins gave."""

from __future__ import annotations

import grpc  # type: ignore[import-untyped]  # it has none
from msgspec import Struct

from tessera_kubelet.proto.podresources_pb2 import (
    ListPodResourcesRequest,
    ListPodResourcesResponse,
)
from tests.node.island import Island

SOCKET = "/var/lib/kubelet/pod-resources/kubelet.sock"
METHOD = "/v1.PodResourcesLister/List"
CALL_S = 10.0


class KubeletSilent(Exception):
    """It does not answer."""


class Known(Struct, frozen=True):
    """A pod, as kubelet has it."""

    namespace: str
    name: str
    devices: tuple[str, ...]


def known_to_kubelet(island: Island) -> list[Known]:
    """All of them. Raises KubeletSilent."""
    with grpc.insecure_channel(f"unix:{island.outside(SOCKET)}") as channel:
        ask = channel.unary_unary(
            METHOD, request_serializer=ListPodResourcesRequest.SerializeToString,
            response_deserializer=ListPodResourcesResponse.FromString,
        )  # fmt: skip
        try:
            answer = ask(ListPodResourcesRequest(), timeout=CALL_S)
        except grpc.RpcError as e:
            raise KubeletSilent(str(e)) from e
    return [
        Known(
            pod.namespace, pod.name,
            tuple(
                device for container in pod.containers for given in container.devices
                for device in given.device_ids
            ),
        )
        for pod in answer.pod_resources
    ]  # fmt: skip
