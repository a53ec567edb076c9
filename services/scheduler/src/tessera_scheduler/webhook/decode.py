"""The objects of a request. All of these raise msgspec.DecodeError for what is no pod."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from tessera_core.admission.pod_patch import PodChanges, patch
from tessera_core.kube.json_patch import JsonPatchStep
from tessera_schema.endpoints.admission_review import ReviewRequest
from tessera_schema.json_codec import decoder
from tessera_schema.kube import Pod

_pod = decoder(Pod)
_document = decoder(dict[str, Any])


def read_pod(request: ReviewRequest) -> Pod:
    """The object, in the namespace that the request names."""
    pod = _pod(bytes(request.object))
    if pod.metadata.namespace == request.namespace:
        return pod
    return replace(pod, metadata=replace(pod.metadata, namespace=request.namespace))


def read_old(request: ReviewRequest) -> Pod:
    """The object as it was; an empty pod where there was none."""
    old = bytes(request.old_object)
    return Pod() if old == b"null" else _pod(old)


def steps_to(request: ReviewRequest, wanted: PodChanges) -> tuple[JsonPatchStep, ...]:
    """The patch from the object as it came to what is wanted."""
    return patch(_document(bytes(request.object)), wanted)
