"""What the server says about itself: version, health, groups and their kinds."""

from __future__ import annotations

from typing import Final

from tessera_embedded.apiserver.answers.openapi import described
from tessera_embedded.apiserver.errors import JsonObject
from tessera_embedded.apiserver.http_types import Response, answer
from tessera_embedded.apiserver.objects.resources import KindCatalogue, Resource

_VERBS: Final = [
    "create", "delete", "deletecollection", "get", "list", "patch", "update", "watch",
]  # fmt: skip
_VERSION: Final[JsonObject] = {
    "major": "1", "minor": "34", "gitVersion": "v1.34.3+tessera", "gitCommit": "",
    "gitTreeState": "clean", "buildDate": "", "goVersion": "", "compiler": "", "platform": "",
}  # fmt: skip
_NOWHERE: Final = Response(404, b"404 page not found\n", content_type="text/plain")
_HEALTH: Final = ("/readyz", "/livez", "/healthz")
_POSTED: Final = (
    ("authentication.k8s.io", "tokenreviews", "TokenReview"),
    ("authentication.k8s.io", "selfsubjectreviews", "SelfSubjectReview"),
    ("authorization.k8s.io", "subjectaccessreviews", "SubjectAccessReview"),
    ("authorization.k8s.io", "selfsubjectaccessreviews", "SelfSubjectAccessReview"),
)
_SUBRESOURCE_KINDS: Final = {
    "binding": ("", "Binding"),
    "eviction": ("policy", "Eviction"),
    "token": ("authentication.k8s.io", "TokenRequest"),
}


def discovered(  # noqa: C901, PLR0911  (one case for each path)
    path: str, catalogue: KindCatalogue
) -> Response | None:
    """The answer to a question about the server itself, or None where the path is none."""
    if path.startswith(_HEALTH):
        return Response(200, b"ok", content_type="text/plain")
    if path == "/version":
        return answer(200, _VERSION)
    found = described(path, catalogue)
    if found is not None:
        return found
    match path.strip("/").split("/"):
        case ["api"]:
            return answer(200, {"kind": "APIVersions", "versions": ["v1"],
                                "serverAddressByClientCIDRs": []})  # fmt: skip
        case ["apis"]:
            groups = [_group(name, catalogue) for name in _groups(catalogue)]
            return answer(200, {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
        case ["apis", group] if group in _groups(catalogue):
            about = {"kind": "APIGroup", "apiVersion": "v1"}
            return answer(200, {**about, **_group(group, catalogue)})
        case ["api", version]:
            return _kinds("", version, catalogue)
        case ["apis", group, version]:
            return _kinds(group, version, catalogue) or _nowhere(group, catalogue)
        case ["apis", group, *_]:
            return _nowhere(group, catalogue)
        case ["api", *_]:
            return None
        case _:
            return _NOWHERE


def _nowhere(group: str, catalogue: KindCatalogue) -> Response | None:
    return None if group in _groups(catalogue) else _NOWHERE


def _groups(catalogue: KindCatalogue) -> list[str]:
    names = [r.group for r in catalogue if r.group] + [group for group, *_ in _POSTED]
    return sorted(set(names))


def _group(name: str, catalogue: KindCatalogue) -> JsonObject:
    known = {r.version: None for r in catalogue if r.group == name} or {"v1": None}
    versions = [{"groupVersion": f"{name}/{v}", "version": v} for v in known]
    return {"name": name, "versions": versions, "preferredVersion": versions[0]}


def _kinds(group: str, version: str, catalogue: KindCatalogue) -> Response | None:
    served = [r for r in catalogue if (r.group, r.version) == (group, version)]
    posted = [(plural, kind) for g, plural, kind in _POSTED if (g, version) == (group, "v1")]
    if not served and not posted:
        return None
    entries = [entry for resource in served for entry in _entries(resource)]
    entries += [
        {"name": plural, "singularName": kind.lower(), "namespaced": False, "kind": kind,
         "verbs": ["create"]}
        for plural, kind in posted
    ]  # fmt: skip
    name = f"{group}/{version}" if group else version
    return answer(200, {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": name,
                        "resources": entries})  # fmt: skip


def _entries(resource: Resource) -> list[JsonObject]:
    about: JsonObject = {"namespaced": resource.namespaced, "kind": resource.kind}
    entries: list[JsonObject] = [
        {"name": resource.plural, "singularName": resource.kind.lower(), **about,
         "verbs": _VERBS, "shortNames": list(resource.short)}
    ]  # fmt: skip
    if resource.status:
        entries.append({"name": f"{resource.plural}/status", "singularName": "", **about,
                        "verbs": ["get", "patch", "update"]})  # fmt: skip
    for subresource in resource.subresources:
        group, kind = _SUBRESOURCE_KINDS.get(subresource, (resource.group, resource.kind))
        entries.append({
            "name": f"{resource.plural}/{subresource}", "singularName": "",
            "namespaced": resource.namespaced, "group": group, "version": "v1", "kind": kind,
            "verbs": ["create"],
        })  # fmt: skip
    return entries
