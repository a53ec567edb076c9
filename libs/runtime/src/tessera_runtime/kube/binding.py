"""The one write that places a pod and records its cards, and the read that shows what came of it.

A Binding carries annotations, which the API server puts on the pod in the same transaction; its uid
is a precondition, so a late Binding never hits another pod of that name.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec
from msgspec import Struct

from tessera_runtime.errors import ApiLost, ApiNotFound
from tessera_runtime.kube import paths
from tessera_runtime.kube.api import Kube, Verb
from tessera_schema.json_codec import decoder
from tessera_schema.kube import Pod

_read_pod: Final = decoder(Pod)
_NO_LABELS: Final[Mapping[str, str]] = MappingProxyType({})


class PodKey(Struct, frozen=True):
    """One pod and no other."""

    namespace: str
    name: str
    uid: str


def binding_body(
    pod: PodKey, node: str, annotations: Mapping[str, str], version: str = "",
    labels: Mapping[str, str] = _NO_LABELS,
) -> bytes:  # fmt: skip
    """The JSON of a Binding. The uid is a precondition unless it is empty, and so is a
    resourceVersion (`version`). Labels reach the pod where the API server copies them
    (`PodTopologyLabelsAdmission`: from Kubernetes 1.35 on)."""
    metadata: dict[str, object] = {
        "name": pod.name, "namespace": pod.namespace, "uid": pod.uid, "annotations": annotations,
    }  # fmt: skip
    if labels:
        metadata["labels"] = labels
    if version:
        metadata["resourceVersion"] = version
    return msgspec.json.encode(
        {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": metadata,
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
    )


async def read_back(kube: Kube, pod: PodKey) -> Pod | None:
    """The pod as it is now, by a quorum read; None when it is gone, or is another by that name.

    Raises as `Kube.call` does: then nothing is known. A 404 by anyone but the API server is
    ApiLost, and so is an answer that is no pod.
    """
    path = paths.pod(pod.namespace, pod.name)
    try:
        answer = await kube.call(Verb.GET, path)
    except ApiNotFound as e:
        if e.reason != "NotFound":
            raise ApiLost(f"GET {path}: 404, but not by an API server: {e.message}") from e
        return None
    try:
        found = _read_pod(answer)
    except msgspec.DecodeError as e:
        raise ApiLost(f"GET {path}: not a pod: {e}") from e
    if not found.metadata.uid:
        raise ApiLost(f"GET {path}: not a pod: it has no uid")
    return found if found.metadata.uid == pod.uid else None
