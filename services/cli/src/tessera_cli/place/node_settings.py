"""The ConfigMap with settings of cards, node by node."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from tessera_cli.errors import Malformed
from tessera_cli.place.decode import convert
from tessera_core.inventory.node_settings import BadNodeSettings, NodeSettings
from tessera_core.registry.registry import DialectRegistry
from tessera_runtime.node_settings import parse_node_settings


class _SettingsMap(Struct, frozen=True):
    data: dict[str, str] = {}


def node_settings(
    raw: Mapping[str, Any], registry: DialectRegistry, where: str, notify: Callable[[str], None]
) -> NodeSettings:
    """The settings in the ConfigMap. Reports what of it has no effect. Raises Malformed."""
    try:
        found = parse_node_settings(registry, convert(raw, _SettingsMap, where).data)
    except BadNodeSettings as e:
        raise Malformed(where, str(e)) from e
    for sentence in found.ignored:
        notify(f"{where}: {sentence}")
    return found
