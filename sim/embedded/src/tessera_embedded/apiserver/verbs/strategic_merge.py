"""Strategic merge patch: a merge patch in which some lists are merged by a key.

Which lists, and by which key, is Kubernetes' own table; every other list is replaced (a node's
taints and a pod's tolerations among them). Served: `$patch: delete|replace`,
`$deleteFromPrimitiveList/`, `$setElementOrder/` (new items go last whatever it says) and
`$retainKeys`.
"""

from __future__ import annotations

from typing import Any, Final

from tessera_embedded.apiserver.errors import BadRequest, JsonObject

_KEYS: Final = {
    "addresses": "type", "allocatedResourcesStatus": "name", "conditions": "type",
    "containers": "name", "env": "name", "ephemeralContainers": "name", "hostAliases": "ip",
    "imagePullSecrets": "name", "initContainers": "name", "matchConditions": "name",
    "ownerReferences": "uid", "podIPs": "ip", "ports": "containerPort",
    "resourceClaims": "name", "resourceClaimStatuses": "name", "schedulingGates": "name",
    "secrets": "name", "topologySpreadConstraints": "topologyKey", "variables": "name",
    "volumeDevices": "devicePath", "volumeMounts": "mountPath", "volumes": "name",
    "webhooks": "name",
}  # fmt: skip
"""Field name to the key that distinguishes its items."""

_SETS: Final = ("finalizers", "podCIDRs")
_DIRECTIVE: Final = "$patch"
_DELETE_FROM: Final = "$deleteFromPrimitiveList/"
_ORDER: Final = "$setElementOrder/"
_RETAIN: Final = "$retainKeys"


def strategic(old: Any, patch: JsonObject) -> Any:
    """The object with the patch applied; `old` is left alone. Raises BadRequest."""
    directive = patch.get(_DIRECTIVE)
    if directive == "delete":
        return {}
    if directive == "replace":
        return {k: v for k, v in patch.items() if k != _DIRECTIVE}
    if directive not in (None, "merge"):
        raise BadRequest(f"Unknown patch type: {directive!r}; use delete, replace or merge")
    merged = dict(old) if isinstance(old, dict) else {}
    if _RETAIN in patch:
        merged = {k: v for k, v in merged.items() if k in patch[_RETAIN]}
    for key, value in patch.items():
        _field(merged, key, value)
    return merged


def _field(merged: JsonObject, key: str, value: Any) -> None:
    if key in (_DIRECTIVE, _RETAIN) or key.startswith(_ORDER):
        return
    if key.startswith(_DELETE_FROM):
        name = key.removeprefix(_DELETE_FROM)
        merged[name] = [v for v in merged.get(name, ()) if v not in value]
    elif value is None:
        merged.pop(key, None)
    elif isinstance(value, dict):
        merged[key] = strategic(merged.get(key), value)
    elif isinstance(value, list):
        merged[key] = _list(key, merged.get(key), value)
    else:
        merged[key] = value


def _list(name: str, old: Any, patch: list[Any]) -> list[Any]:
    have = old if isinstance(old, list) else []
    if name in _SETS:
        return [*have, *(v for v in patch if v not in have)]
    if name not in _KEYS:
        return patch
    if {_DIRECTIVE: "replace"} in patch:
        return [item for item in patch if item != {_DIRECTIVE: "replace"}]
    return _merged(_KEYS[name], name, have, patch)


def _merged(key: str, name: str, have: list[Any], patch: list[Any]) -> list[Any]:
    items = list(have)
    for wanted in patch:
        if not isinstance(wanted, dict) or key not in wanted:
            raise BadRequest(f"an item of {name} in the patch does not contain its merge key {key}")
        at = next((i for i, item in enumerate(items) if item.get(key) == wanted[key]), None)
        if wanted.get(_DIRECTIVE) == "delete":
            if at is not None:
                del items[at]
        elif at is None:
            items.append(strategic({}, wanted))
        else:
            items[at] = strategic(items[at], wanted)
    return items
