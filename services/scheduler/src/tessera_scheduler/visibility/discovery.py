"""What is served, as clients ask for it: groups, versions, kinds, and an OpenAPI document for the
API server, which asks every extension server for one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tessera_schema.endpoints.queue_states import QUEUES_KIND, QUEUES_PLURAL
from tessera_schema.endpoints.visibility import API_VERSION, GROUP, KIND, PLURAL, VERSION

_VERSION: Final = {"groupVersion": API_VERSION, "version": VERSION}
_GROUP: Final[dict[str, Any]] = {
    "name": GROUP, "versions": [_VERSION], "preferredVersion": _VERSION,
}  # fmt: skip

DOCUMENTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_GROUP]},
    f"/apis/{GROUP}": {"kind": "APIGroup", "apiVersion": "v1", **_GROUP},
    f"/apis/{API_VERSION}": {
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": API_VERSION,
        "resources": [{
            "name": PLURAL, "singularName": KIND.lower(), "namespaced": True, "kind": KIND,
            "verbs": ["get", "list"], "shortNames": ["podexp"],
        }, {
            "name": QUEUES_PLURAL, "singularName": QUEUES_KIND.lower(), "namespaced": True,
            "kind": QUEUES_KIND, "verbs": ["list"],
        }],
    },
    "/openapi/v2": {
        "swagger": "2.0", "info": {"title": GROUP, "version": VERSION}, "paths": {},
    },
    "/openapi/v3": {"paths": {}},
}  # fmt: skip
"""Path -> answer."""
