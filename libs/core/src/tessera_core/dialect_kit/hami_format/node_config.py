"""HAMi's per-node file, `config.json` of its ConfigMap `hami-device-plugin`, read as it is.

    {"nodeconfig": [{"name": "gpu-1", "devicesplitcount": 10, "filterdevices": {"index": [0]}}]}

Keys are read in any case, as Go reads JSON; a node's name is written out. As in HAMi, 0 and an
empty text say nothing, and where two entries name a node the later one counts. Source: HAMi,
the device plugin in pkg/device-plugin, at v2.5 and later.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from tessera_core.dialect_kit.card_settings import CardSettings
from tessera_core.dialect_kit.log_level import log_level_of

_LIST: Final = "nodeconfig"
_NAME: Final = "name"
_FIELDS: Final = {
    "devicesplitcount": "slots",
    "devicememoryscaling": "memory_scaling",
    "devicecorescaling": "core_scaling",
    "preconfigureddevicememory": "unified_memory_mib",
    "operatingmode": "mode",
}
"""HAMi's key -> field of `CardSettings`."""
_LOG_LEVEL: Final = "libcudaloglevel"
_FILTER: Final = "filterdevices"
_FILTERS: Final = {"uuid": "ids", "index": "indexes"}
_ELSEWHERE: Final = {
    "enablenumatopology": "the agent's setting TESSERA_PLUGIN_NUMA shows kubelet NUMA nodes",
    "migstrategy": "cards in MIG mode take no pods yet",
    "enablegetpreferredallocation": "the scheduler chooses the cards",
}
_SILENT: Final = (0, "", None, False)
"""What says nothing."""


class ConfiguredNode(Struct, frozen=True):
    """An entry of the file."""

    node: str
    settings: CardSettings


def is_node_config(content: object) -> bool:
    """Whether a parsed file is HAMi's per-node file."""
    return isinstance(content, Mapping) and any(str(key).lower() == _LIST for key in content)


def read_node_config(
    content: Mapping[str, Any],
) -> tuple[tuple[ConfiguredNode, ...], tuple[str, ...]]:
    """Its entries, and a sentence for each that has no effect. Never raises."""
    listed = _lower(content)[_LIST]
    if not isinstance(listed, list):
        return (), (f"{_LIST}: {listed!r}: HAMi has a list here",)
    nodes, ignored = [], list[str]()
    for number, entry in enumerate(listed):
        path = f"{_LIST}[{number}]"
        if not isinstance(entry, Mapping) or not isinstance(_lower(entry).get(_NAME), str):
            ignored.append(f"{path}: without the name of a node: name the entry by it")
            continue
        values = _lower(entry)
        settings = CardSettings()
        for fields, problem in _read(path, values):
            if problem:
                ignored.append(problem)
                continue
            try:
                settings = settings.under(msgspec.convert(fields, CardSettings))
            except msgspec.ValidationError as e:
                said = str(e).partition(" - at")[0].replace("Expected", "write")
                said = said.replace("`", "").replace(" | null", "")
                ignored.append(f"{path}: {next(iter(fields.values()))!r}: {said}")
        nodes.append(ConfiguredNode(values[_NAME], settings))
    return tuple(nodes), tuple(ignored)


def _read(path: str, values: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    """Fields of `CardSettings`, one at a time, or what has no effect."""
    for key, value in values.items():
        if key == _NAME or value in _SILENT:
            continue
        if key in _FIELDS:
            yield {_FIELDS[key]: value}, ""
        elif key == _LOG_LEVEL and str(value).isdecimal():
            yield {"log_level": log_level_of(int(value))}, ""
        elif key == _FILTER and isinstance(value, Mapping):
            yield from _hidden(f"{path}.{key}", _lower(value))
        else:
            why = _ELSEWHERE.get(key, "no such key is known")
            yield {}, f"{path}.{key}: {value!r}: {why}"


def _hidden(path: str, filters: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    for key, value in filters.items():
        if key in _FILTERS:
            yield {"hidden": {_FILTERS[key]: value or []}}, ""
        else:
            yield {}, f"{path}.{key}: {value!r}: no such key is known"


def _lower(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {str(key).lower(): value for key, value in entry.items()}
