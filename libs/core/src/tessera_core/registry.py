"""Finds the dialects and vendors, configures them, and knows which one owns a resource name."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Any

import msgspec

from tessera_core import dialects, vendors
from tessera_core.dialect import Dialect, Vendor


class BadConfiguration(ValueError):
    """A dialect's configuration is wrong; the message names dialect and field."""


class Registry(msgspec.Struct, frozen=True, kw_only=True):
    """The dialects that are switched on, by name, and the vendors."""

    dialects: Mapping[str, Dialect]
    vendors: Mapping[str, Vendor]
    owners: Mapping[str, str]
    """Resource name -> dialect."""

    @property
    def resources(self) -> frozenset[str]:
        """Every resource name of every dialect that is on."""
        return frozenset(name for d in self.dialects.values() for name in d.resources)


def _siblings(package: ModuleType) -> list[ModuleType]:
    names = sorted(found.name for found in pkgutil.iter_modules(package.__path__))
    return [importlib.import_module(f"{package.__name__}.{name}") for name in names]


def load(
    config: Mapping[str, Mapping[str, Any]] | None = None, extra: Iterable[ModuleType] = ()
) -> Registry:
    """Load every dialect that is not switched off.

    `config` maps a dialect's name to its options; the option `enabled: false` switches it off.
    `extra` are dialect modules from elsewhere. Raises BadConfiguration for an unknown dialect or
    option, and when two dialects own one resource name.
    """
    config = config or {}
    modules = {m.__name__.rpartition(".")[2]: m for m in (*_siblings(dialects), *extra)}
    unknown = sorted(set(config) - set(modules))
    if unknown:
        raise BadConfiguration(
            f"dialects.{unknown[0]}: no such dialect; known: {', '.join(modules)}"
        )
    loaded = {}
    for name, module in modules.items():
        options = dict(config.get(name) or {})
        if options.pop("enabled", True) is False:
            continue
        try:
            loaded[name] = module.dialect(msgspec.convert(options, module.Options))
        except (msgspec.ValidationError, ValueError) as e:
            raise BadConfiguration(f"dialects.{name}: {e}") from e
    return Registry(
        dialects=loaded,
        vendors={m.VENDOR.name: m.VENDOR for m in _siblings(vendors)},
        owners=_owners(loaded.values()),
    )


def _owners(loaded: Iterable[Dialect]) -> dict[str, str]:
    owners: dict[str, str] = {}
    for dialect in loaded:
        for name in sorted(dialect.resources - dialect.lent):
            if name in owners:
                raise BadConfiguration(
                    f"resource {name} belongs to both {owners[name]} and {dialect.name}: "
                    "rename it in one of them or switch one off"
                )
            owners[name] = dialect.name
    return owners
