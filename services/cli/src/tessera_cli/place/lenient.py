"""Manifests that an API server refuses and that Tessera plans nevertheless, with a warning.

Kubernetes wants text in labels, annotations, commands, arguments and variables; people write 50
and true there, and so does the published example of one system. What comes in is never altered:
mending builds a new mapping.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

_TEXT_MAPS: Final = (
    ("metadata", "annotations"),
    ("metadata", "labels"),
    ("spec", "nodeSelector"),
)
_CONTAINERS: Final = ("initContainers", "containers")
_AMOUNTS: Final = ("limits", "requests")

Notify = Callable[[str], None]


def repaired(raw: Mapping[str, Any], notify: Notify, prefix: str = "") -> dict[str, Any]:
    """The object with text where Kubernetes wants text and without nulls.

    `prefix` is where the object is in the one that messages speak of, such as `spec.template.`.
    """
    _report_null_amounts(raw, notify, prefix)
    whole: dict[str, Any] = without_nulls(raw)
    for parent, name in _TEXT_MAPS:
        held = whole.get(parent)
        if isinstance(held, dict) and isinstance(held.get(name), dict):
            texts = {
                key: _text(value, f"{prefix}{parent}.{name}[{key}]", notify)
                for key, value in held[name].items()
            }
            whole[parent] = {**held, name: texts}
    spec = whole.get("spec")
    if isinstance(spec, dict):
        lists = {
            kind: [
                _container(c, f"{prefix}spec.{kind}[{i}]", notify) for i, c in enumerate(spec[kind])
            ]
            for kind in _CONTAINERS
            if isinstance(spec.get(kind), list)
        }
        whole["spec"] = {**spec, **lists}
    return whole


def without_nulls(value: Any) -> Any:
    """The value without keys and elements that are null; the API server drops them too."""
    match value:
        case dict():
            return {k: without_nulls(v) for k, v in value.items() if v is not None}
        case list():
            return [without_nulls(v) for v in value if v is not None]
        case _:
            return value


def _container(raw: Any, field: str, notify: Notify) -> Any:
    if not isinstance(raw, dict):
        return raw
    texts: dict[str, Any] = {
        name: [_text(v, f"{field}.{name}[{i}]", notify) for i, v in enumerate(raw[name])]
        for name in ("command", "args")
        if isinstance(raw.get(name), list)
    }
    if isinstance(raw.get("env"), list):
        texts["env"] = [
            {**v, "value": _text(v["value"], f"{field}.env[{v.get('name', i)}].value", notify)}
            if isinstance(v, dict) and "value" in v
            else v
            for i, v in enumerate(raw["env"])
        ]
    return {**raw, **texts}


def _text(value: Any, field: str, notify: Notify) -> Any:
    """Numbers and booleans as text, reported; what is no scalar stays, for the reader to refuse."""
    if not isinstance(value, int | float):
        return value
    text = json.dumps(value)
    what = "a boolean" if isinstance(value, bool) else "a number"
    notify(f'{field}: {text} is {what} and the API server wants text: quote it: "{text}"')
    return text


def _report_null_amounts(raw: Mapping[str, Any], notify: Notify, prefix: str) -> None:
    spec = raw.get("spec")
    for kind in _CONTAINERS:
        found = spec.get(kind) if isinstance(spec, dict) else None
        for i, container in enumerate(found if isinstance(found, list) else ()):
            resources = container.get("resources") if isinstance(container, dict) else None
            for where in _AMOUNTS:
                amounts = resources.get(where) if isinstance(resources, dict) else None
                for name, amount in amounts.items() if isinstance(amounts, dict) else ():
                    if amount is None:
                        notify(
                            f"{prefix}spec.{kind}[{i}].resources.{where}[{name}]: "
                            "null counts as not asked: write an amount"
                        )
