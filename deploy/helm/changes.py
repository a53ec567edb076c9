"""What a component changes, as a patch that the chart's templates apply.

`difference` compares the rendered base with the rendered base and component. Lists whose elements
have names are merged by them, and what a patch names stands first, as kustomize has it.
"""

from __future__ import annotations

from typing import Any, Final

Json = dict[str, Any]

IDS: Final = {
    "containers": "name",
    "initContainers": "name",
    "env": "name",
    "volumes": "name",
    "volumeMounts": "mountPath",
    "variables": "name",
}
"""Field -> by what its elements are distinguished. templates/_merge.tpl has the same table."""


def difference(old: Json, new: Json) -> Json:
    """The patch that makes `new` of `old`; none = nothing."""
    patch: Json = {}
    for key in dict.fromkeys((*old, *new)):
        if key not in new:
            patch[key] = None
        elif key not in old:
            patch[key] = new[key]
        elif old[key] != new[key]:
            patch[key] = _of_values(key, old[key], new[key])
    return patch


def _of_values(key: str, old: Any, new: Any) -> Any:
    if isinstance(old, dict) and isinstance(new, dict):
        return difference(old, new)
    if key in IDS and isinstance(old, list) and isinstance(new, list):
        return _of_lists(IDS[key], old, new)
    return new


def _of_lists(name: str, old: list[Json], new: list[Json]) -> list[Json]:
    there = {item[name]: item for item in old}
    wanted = [item[name] for item in new]
    first = next(n for n in range(len(new) + 1) if _is_left(name, old, new[n:]))
    changed = [
        {name: item[name], **difference(there[item[name]], item)} if item[name] in there else item
        for item in new[:first]
    ]
    return [*changed, *({name: n, "$patch": "delete"} for n in there if n not in wanted)]


def _is_left(name: str, old: list[Json], rest: list[Json]) -> bool:
    """Whether these are elements of the old list as they were, in their order."""
    names = [item[name] for item in rest]
    return [item for item in old if item[name] in names] == rest
