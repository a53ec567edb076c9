"""What the registrations are deleted with: a ClusterRole of the manifests. Once it is gone, the
cluster's garbage collector deletes what names it as owner, so that `kubectl delete -k` leaves no
webhook that refuses pods. The role is also what lets the scheduler write them: without it none
comes back."""

from __future__ import annotations

from typing import Any, Final

from tessera_runtime.kube.api import Kube, Verb
from tessera_runtime.kube.create_or_update import Json, ObjectLocation
from tessera_schema.json_codec import decoder

_RBAC: Final = "rbac.authorization.k8s.io/v1"
_KIND: Final = "ClusterRole"
_read = decoder(Json)


def cluster_role(name: str) -> ObjectLocation:
    """The place of a ClusterRole."""
    return ObjectLocation(
        collection=f"/apis/{_RBAC}/clusterroles", api_version=_RBAC, kind=_KIND, name=name
    )


async def owner_reference(kube: Kube, role: str) -> Json | None:
    """Names this ClusterRole as owner; None where `role` is empty. Raises as `Kube.call` does, and
    so ApiNotFound where the role is gone, after which nothing may be registered any more."""
    if not role:
        return None
    there = _read(await kube.call(Verb.GET, cluster_role(role).path))
    return {
        "apiVersion": _RBAC, "kind": _KIND, "name": role, "uid": there["metadata"]["uid"],
    }  # fmt: skip


def has_owner(there: Json, owner: Json | None) -> bool:
    """Whether the object names this owner; any does where there is none to name."""
    return owner is None or _identity(owner) in map(_identity, _owners(there))


def with_owner(there: Json, owner: Json | None) -> Json:
    """The object with this owner, in place of a ClusterRole of its name that was deleted."""
    if owner is None or has_owner(there, owner):
        return there
    others = [o for o in _owners(there) if (o.get("kind"), o.get("name")) != (_KIND, owner["name"])]
    return {**there, "metadata": {**there["metadata"], "ownerReferences": [*others, owner]}}


def _owners(there: Json) -> list[dict[str, Any]]:
    return there["metadata"].get("ownerReferences") or []


def _identity(owner: Json) -> tuple[Any, ...]:
    return tuple(owner.get(field) for field in ("apiVersion", "kind", "name", "uid"))
