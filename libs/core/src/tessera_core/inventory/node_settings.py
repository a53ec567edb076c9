"""Settings of cards, node by node: which entries hold for which nodes.

    nodes:
      - labels: {pool: training}
        memory_scaling: 0.9
      - names: ["gpu-1*"]
        vendor: some-vendor
        slots: 10
        hidden: {indexes: [0]}

Every entry that selects a node holds there, the later one over the earlier. An entry selects by all
that it says: a name or a pattern of one, labels, a vendor; one that says none of them holds
everywhere. HAMi's per-node file may stand next to it, and is laid under it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tessera_core.dialect_kit.card_settings import CardSettings, HiddenCardNames, Names
from tessera_core.dialect_kit.hami_format.node_config import is_node_config, read_node_config
from tessera_core.inventory.merge import OWN_SOURCE, NodeCards
from tessera_core.kube.quantity import BadQuantity, quantity_value
from tessera_core.registry.registry import DialectRegistry
from tessera_schema.kube import Node

SETTINGS_FILE: Final = "settings.yaml"
"""Key of the ConfigMap that has the settings."""
MOST_ENTRIES: Final = 10_000
_AT: Final = re.compile(r"(?P<what>.*?)(?: - at `\$\.?(?P<path>.*)`)?", re.DOTALL)
_STEP: Final = re.compile(r"\.?(?P<key>[^.\[\]]+)|\[(?P<index>\d+)\]")
_UNKNOWN: Final = re.compile(r"Object contains unknown field `(?P<field>.*)`", re.DOTALL)


class BadNodeSettings(ValueError):
    """The settings cannot be read; the message names field, value and remedy."""


class NodeSettingsEntry(CardSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings, and the nodes for which they hold."""

    names: Names = ()
    """Names of nodes, or patterns with `*`, `?` and `[...]`; none = any name."""
    labels: Mapping[str, str] = {}
    """Labels that a node has, all of them."""
    vendor: str = ""
    """Whose cards; empty = any vendor's."""

    def selects(self, node: str, labels: Mapping[str, str], vendor: str) -> bool:
        """Whether it holds for the vendor's cards on the node."""
        return (
            self.vendor in ("", vendor)
            and (not self.names or any(fnmatchcase(node, name) for name in self.names))
            and all(labels.get(key) == value for key, value in self.labels.items())
        )


class _SettingsFile(Struct, frozen=True, forbid_unknown_fields=True):
    nodes: tuple[NodeSettingsEntry, ...] = ()


class NodeSettings(Struct, frozen=True, kw_only=True):
    """What is set of an installation's cards."""

    entries: tuple[NodeSettingsEntry, ...] = ()
    """The later ones over the earlier."""
    ignored: tuple[str, ...] = ()
    """A sentence for each entry without effect: where it stands, its value, what to do."""

    def on(self, node: Node, vendor: str) -> CardSettings:
        """The settings of the vendor's cards on the node. Those of dialects' options
        (`DialectRegistry.card_settings`) lie under them."""
        found = CardSettings()
        for entry in self.entries:
            if entry.selects(node.name, node.metadata.labels, vendor):
                found = found.under(entry)
        return found


def read_node_settings(registry: DialectRegistry, files: Mapping[str, Any]) -> NodeSettings:
    """The settings in a ConfigMap. `files` are its entries by key, parsed: mappings of YAML or
    JSON. Raises BadNodeSettings."""
    own: tuple[NodeSettingsEntry, ...] = ()
    others: list[NodeSettingsEntry] = []
    ignored: list[str] = []
    for key, content in files.items():
        if is_node_config(content):
            entries, unread = _hamis(registry, content)
            others += entries
            ignored += (f"{key}: {sentence}" for sentence in unread)
        elif key == SETTINGS_FILE:
            own = _read(registry, content)
        else:
            ignored.append(
                f"{key}: nothing reads this: write settings into {SETTINGS_FILE}, and options of "
                "dialects (HAMi's device-config.yaml) into the ConfigMap tessera-dialects"
            )
    return NodeSettings(entries=(*others, *own), ignored=tuple(ignored))


def with_settings(
    registry: DialectRegistry, settings: NodeSettings, node: Node, published: NodeCards
) -> NodeCards:
    """What is published of a node, as its agents would publish it under the settings. An amount
    that they do not say stays as it is, and so do cards that another system publishes."""
    own = {vendor for vendor, source in published.sources if source == OWN_SOURCE}
    cards = {card.id: card for card in published.cards}
    for vendor in own:
        said = registry.card_settings(vendor).under(settings.on(node, vendor))
        alike = [card for card in published.cards if card.vendor == vendor]
        on = on_node(said, node, hooked=registry.vendors[vendor].hooked)
        cards |= {card.id: card for card in on.applied_to(alike)}
    return replace(published, cards=tuple(cards.values()))


def on_node(settings: CardSettings, node: Node, *, hooked: bool) -> CardSettings:
    """The settings with the bound that the node's own memory is. `hooked`: `Vendor.hooked`."""
    try:
        memory = quantity_value(node.status.capacity.get("memory", 0))
    except BadQuantity:
        memory = 0
    return settings.on_host(int(memory), hooked=hooked)


def _read(registry: DialectRegistry, content: Any) -> tuple[NodeSettingsEntry, ...]:
    try:
        found = msgspec.convert({} if content is None else content, _SettingsFile).nodes
    except msgspec.ValidationError as e:
        raise BadNodeSettings(f"{SETTINGS_FILE}: {_problem(content, str(e))}") from e
    if len(found) > MOST_ENTRIES:
        raise BadNodeSettings(
            f"{SETTINGS_FILE}: nodes: {len(found)} entries: write at most {MOST_ENTRIES}; select "
            "nodes by labels"
        )
    for number, entry in enumerate(found):
        if entry.vendor and entry.vendor not in registry.vendors:
            known = ", ".join(sorted(registry.vendors))
            raise BadNodeSettings(
                f"{SETTINGS_FILE}: nodes[{number}].vendor: {entry.vendor!r}: write one of {known}"
            )
    return found


def _hamis(
    registry: DialectRegistry, content: Mapping[str, Any]
) -> tuple[list[NodeSettingsEntry], tuple[str, ...]]:
    """HAMi's file, for the vendors whose plugin of HAMi reads it. A name there is no pattern."""
    vendors = sorted({d.vendor for d in registry.readers.values() if d.reads_node_config})
    found, ignored = read_node_config(content)
    entries = [
        NodeSettingsEntry(
            names=(_literal(one.node),), vendor=vendor,
            **{name: getattr(one.settings, name) for name in CardSettings.__struct_fields__},
        )
        for vendor in vendors for one in found
    ]  # fmt: skip
    return entries, ignored


def _literal(name: str) -> str:
    return re.sub(r"([*?\[])", r"[\1]", name)


def _problem(content: Any, said: str) -> str:
    """What msgspec found, with the place, the value there and what to write."""
    found = _AT.fullmatch(said)
    what, path = (found["what"], found["path"] or "") if found else (said, "")
    unknown = _UNKNOWN.fullmatch(what)
    if unknown is not None:
        struct: type[Struct] = NodeSettingsEntry if path.startswith("nodes") else _SettingsFile
        if path.endswith("hidden"):
            struct = HiddenCardNames
        known = ", ".join(struct.__struct_fields__)
        where = f"{path}.{unknown['field']}".lstrip(".")
        return f"{where}: there is no such setting: write one of {known}"
    value = content
    for step in _STEP.finditer(path):
        try:
            value = value[int(step["index"])] if step["index"] else value[step["key"]]
        except (LookupError, TypeError):
            return f"{path}: {what}"
    if not path:
        return "write a mapping with the key nodes"
    shown = value if isinstance(value, (str, int, float)) else msgspec.json.encode(value).decode()
    return f"{path}: {shown!r}: {_remedy(what)}"


def _remedy(what: str) -> str:
    return what.replace("Expected ", "write ", 1).replace("`", "").replace(" | null", "")
