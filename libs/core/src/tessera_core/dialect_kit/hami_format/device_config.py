"""HAMi's `device-config.yaml`, read as it is: which options of the dialects its entries are.

HAMi's chart mounts it from the ConfigMap `hami-scheduler-device` (the keys are those of v2.5 and
later). A dialect says which section is its own (`DeviceConfigSection`). A file is taken for HAMi's
where it has such a section with one of HAMi's keys: those are in camel case, Tessera's are not.
Nothing is dropped in silence: every entry that has no effect is named, with what to do instead.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from typing import Any, Final

from msgspec import Struct

_LABELS: Final = frozenset({"chipName"})
"""Keys that only name an entry for people."""


class DeviceConfigSection(Struct, frozen=True, kw_only=True):
    """A section of the file, and the options that its keys are."""

    name: str
    keys: Mapping[str, str]
    """HAMi's key -> option of the dialect, or field of a list's entry."""
    text: frozenset[str] = frozenset()
    """Keys whose value is text, although it may be written as a number."""
    elsewhere: Mapping[str, str] = {}
    """Key that has no effect in a dialect -> what to do instead."""
    entries: str = ""
    """Where the section is a list: the option that takes its entries. Empty = it is a mapping."""
    entry_name: str = ""
    """Key that each entry of a list must have."""


class DeviceConfigTranslation(Struct, frozen=True):
    """What HAMi's file says in the words of the dialects."""

    options: dict[str, dict[str, Any]]
    """Dialect -> option -> value, as `tessera_core.registry.registry.load` takes it."""
    ignored: tuple[str, ...]
    """Each entry without effect: its path, its value, and what to do."""


def is_device_config(
    config: Mapping[str, Any], sections: Mapping[str, DeviceConfigSection]
) -> bool:
    """Whether a configuration file is HAMi's. `sections` are the dialects' own, by dialect."""
    for section in sections.values():
        found = config.get(section.name)
        entries = found if isinstance(found, list) else [found]
        known = section.keys.keys() | section.elsewhere.keys()
        if any(isinstance(one, Mapping) and not known.isdisjoint(one) for one in entries):
            return True
    return False


def translate_device_config(
    config: Mapping[str, Any], sections: Mapping[str, DeviceConfigSection], known: Container[str]
) -> DeviceConfigTranslation:
    """HAMi's file in the words of the dialects. `known` are all dialects: a section that is called
    like one, and is none of HAMi's, is Tessera's own. The dialects check the values later."""
    dialects = {section.name: dialect for dialect, section in sections.items()}
    options: dict[str, dict[str, Any]] = {}
    ignored: list[str] = []
    for name, found in config.items():
        dialect = dialects.get(name)
        if dialect is None and name in known:
            options[name] = {**options.get(name, {}), **found}
            continue
        if dialect is None:
            ignored.append(f"{name}: no dialect reads this section")
            continue
        section = sections[dialect]
        read, more = _list(section, found) if section.entries else _mapping(section, name, found)
        ignored += more
        if read:
            options[dialect] = {**read, **options.get(dialect, {})}
    return DeviceConfigTranslation(options, tuple(ignored))


def _mapping(
    section: DeviceConfigSection, path: str, found: object
) -> tuple[dict[str, Any], list[str]]:
    if found is None:
        return {}, []
    if not isinstance(found, Mapping):
        return {}, [f"{path}: {found!r}: HAMi has a mapping here"]
    read = {
        section.keys[key]: str(value) if key in section.text else value
        for key, value in found.items()
        if key in section.keys
    }
    return read, list(_unread(section, path, found))


def _unread(section: DeviceConfigSection, path: str, found: Mapping[str, Any]) -> Iterator[str]:
    for key, value in found.items():
        if key not in section.keys and key not in _LABELS:
            yield f"{path}.{key}: {value!r}: {section.elsewhere.get(key, 'no such key is known')}"


def _list(section: DeviceConfigSection, found: object) -> tuple[dict[str, Any], list[str]]:
    """A file with a list names all that are served: an empty one changes nothing."""
    if not found:
        return {}, []
    if not isinstance(found, list):
        return {}, [f"{section.name}: {found!r}: HAMi has a list here"]
    entries, ignored = [], []
    for number, one in enumerate(found):
        path = f"{section.name}[{number}]"
        entry, more = _mapping(section, path, one)
        ignored += more
        if isinstance(one, Mapping) and section.entry_name not in one:
            ignored.append(f"{path}: without {section.entry_name}: name the entry by it")
        elif entry:
            entries.append(entry)
    return ({section.entries: entries} if entries else {}), ignored
