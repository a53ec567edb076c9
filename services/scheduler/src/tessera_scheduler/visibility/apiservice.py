"""How the API server learns of the aggregated API: an APIService, written and kept as it must be.

It stays when a replica ends, for those who follow, and goes with its owner. While nobody answers it
is unavailable, and what asks for all kinds of a cluster (the deletion of a namespace, above all)
waits for it.
"""

from __future__ import annotations

import base64
from typing import Final

from msgspec import Struct

from tessera_runtime.kube.api import Kube
from tessera_runtime.kube.create_or_update import Json, ObjectLocation, create_or_update
from tessera_scheduler.webhook.owner import has_owner, owner_reference, with_owner
from tessera_scheduler.webhook.registration import is_in
from tessera_schema.endpoints.visibility import GROUP, VERSION

_API: Final = "apiregistration.k8s.io/v1"
NAME: Final = f"{VERSION}.{GROUP}"
PLACE: Final = ObjectLocation(
    collection=f"/apis/{_API}/apiservices", api_version=_API, kind="APIService", name=NAME
)


class Address(Struct, frozen=True, kw_only=True):
    """The Service under which the API server reaches us."""

    namespace: str
    name: str
    port: int
    owner: str = ""
    """ClusterRole that the APIService is deleted with; empty = none."""


async def keep_apiservice(kube: Kube, address: Address, bundle: bytes) -> None:
    """Write it where it is missing or different. Of an empty `bundle` what others wrote as caBundle
    is kept. Raises as `create_or_update` does."""
    wanted: Json = {
        "group": GROUP, "version": VERSION, "groupPriorityMinimum": 100, "versionPriority": 100,
        "service": {"namespace": address.namespace, "name": address.name, "port": address.port},
    }  # fmt: skip
    if bundle:
        wanted["caBundle"] = base64.b64encode(bundle).decode()

    owner = await owner_reference(kube, address.owner)

    def change(there: Json | None) -> Json | None:
        had = (there or {}).get("spec") or {}
        if there is not None and is_in(wanted, had) and has_owner(there, owner):
            return None
        kept = {"caBundle": had["caBundle"]} if had.get("caBundle") else {}
        return {**with_owner(there or PLACE.object(), owner), "spec": {**kept, **wanted}}

    await create_or_update(kube, PLACE, change)
