"""Label selectors of settings: JSON as Kubernetes writes it, checked when the settings are read."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import Struct

from tessera_runtime.errors import BadSettings

Json = dict[str, Any]


class LabelRequirement(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One of `matchExpressions`."""

    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raise ValueError where values do not fit the operator."""
        if bool(self.values) != (self.operator in ("In", "NotIn")):
            raise ValueError(f"{self.key}: In and NotIn need values, other operators none")


class LabelSelector(
    Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, rename="camel"
):
    """A selector; all that it names must match."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[LabelRequirement, ...] = ()


def label_selector(text: str, setting: str) -> Json:
    """The selector as Kubernetes takes it; nothing for an empty text. Raises BadSettings."""
    if not text:
        return {}
    try:
        selector = msgspec.json.decode(text, type=LabelSelector)
    except msgspec.DecodeError as e:
        raise BadSettings(
            f"{setting}: {e}: write a label selector in JSON, such as "
            '{"matchLabels": {"team": "research"}}'
        ) from e
    found: Json = msgspec.json.decode(msgspec.json.encode(selector))
    return found
