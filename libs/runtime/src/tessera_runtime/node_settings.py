"""Settings of cards, node by node, from the text of their ConfigMap."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tessera_core.inventory.node_settings import BadNodeSettings, NodeSettings, read_node_settings
from tessera_core.registry.registry import DialectRegistry


def parse_node_settings(registry: DialectRegistry, data: Mapping[str, str]) -> NodeSettings:
    """The settings. `data` is the ConfigMap's. Raises BadNodeSettings, which names key, field,
    value and remedy."""
    files: dict[str, Any] = {}
    for key, text in data.items():
        try:
            files[key] = msgspec.yaml.decode(text)
        except msgspec.DecodeError as e:
            raise BadNodeSettings(f"{key}: {e}: write YAML or JSON") from e
    return read_node_settings(registry, files)
