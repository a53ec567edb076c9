"""As much of OpenAPI v3 as `kubectl create -f` and `apply` ask for: which kinds there are, and that
each write takes `fieldValidation`, so that fields are the server's to check and not kubectl's.

There are no schemas in it: `kubectl explain` finds nothing, and `apply` makes its patches from the
kinds that kubectl itself knows.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tessera_embedded.apiserver.errors import JsonObject
from tessera_embedded.apiserver.http_types import Response, answer
from tessera_embedded.apiserver.objects.resources import KindCatalogue, Resource

INDEX: Final = "/openapi/v3"
_CHECKED: Final = [
    {"name": "fieldValidation", "in": "query", "schema": {"type": "string", "uniqueItems": True}}
]


def described(path: str, catalogue: KindCatalogue) -> Response | None:
    """The answer where the path is one of OpenAPI's, else None."""
    asked = path.rstrip("/")
    if asked != INDEX and not asked.startswith(f"{INDEX}/"):
        return None
    documents: dict[str, list[Resource]] = {}
    for resource in catalogue:
        documents.setdefault(resource.list_path.lstrip("/"), []).append(resource)
    if asked == INDEX:
        paths = {name: {"serverRelativeURL": f"{INDEX}/{name}"} for name in documents}
        return answer(200, {"paths": paths})
    served = documents.get(asked.removeprefix(f"{INDEX}/"))
    return None if served is None else answer(200, _document(served))


def _document(served: Iterable[Resource]) -> JsonObject:
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "unversioned"},
        "paths": {_object_path(resource): _object(resource) for resource in served},
        "components": {"schemas": {}},
    }


def _object_path(resource: Resource) -> str:
    within = "/namespaces/{namespace}" if resource.namespaced else ""
    return f"{resource.list_path}{within}/{resource.plural}/{{name}}"


def _object(resource: Resource) -> JsonObject:
    kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    return {
        verb: {
            "x-kubernetes-action": verb, "x-kubernetes-group-version-kind": kind,
            "parameters": _CHECKED, "responses": {"200": {"description": "OK"}},
        }
        for verb in ("put", "patch")
    }  # fmt: skip
