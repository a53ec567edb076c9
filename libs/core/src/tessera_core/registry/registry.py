"""Finds the dialects and vendors, configures them, and knows which one owns a resource name."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from types import ModuleType
from typing import Any

import msgspec
from msgspec.inspect import LiteralType, StructType, Type, VarTupleType, type_info

from tessera_core import dialects, vendors
from tessera_core.dialect_kit.card_settings import CardSettings
from tessera_core.dialect_kit.contract import Dialect, Vendor
from tessera_core.dialect_kit.hami_format.device_config import (
    is_device_config,
    translate_device_config,
)
from tessera_schema.annotation_keys import GROUP


class BadConfiguration(ValueError):
    """A dialect's configuration is wrong; the message names dialect and field."""


class DialectRegistry(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The dialects that are switched on, by name, and the vendors."""

    dialects: Mapping[str, Dialect]
    readers: Mapping[str, Dialect]
    """All dialects: what is published on nodes and held by running pods counts, whether new pods
    may speak the dialect or not."""
    vendors: Mapping[str, Vendor]
    owners: Mapping[str, str]
    """Resource name -> dialect."""

    result_keys: frozenset[str]
    """Pod annotations that only a scheduler or an agent may write, Tessera's among them."""
    result_prefixes: tuple[str, ...]
    """The same, by their beginnings."""

    ordered: frozenset[str] = frozenset()
    """The dialects whose configuration names an order of nodes or cards, be it the default one:
    somebody wants it."""
    opt_in: frozenset[str] = frozenset()
    """The dialects that an installation knows only where its configuration names them: their own
    system may run in the same cluster, and its pods would be taken."""
    ignored: tuple[str, ...] = ()
    """Entries of HAMi's configuration file that have no effect, and what to do instead."""

    @cached_property
    def plain_env(self) -> dict[str, str]:
        """Variables that are set on containers of pods that ask for nothing."""
        return {n: v for d in self.dialects.values() for n, v in d.plain_env.items()}

    @cached_property
    def resources(self) -> frozenset[str]:
        """Every resource name of every dialect, on or off."""
        return frozenset(name for d in self.readers.values() for name in d.resources)

    def card_settings(self, vendor: str) -> CardSettings:
        """What the options of the vendor's dialects say of its cards on all nodes."""
        found = CardSettings()
        for dialect in self.readers.values():
            if dialect.vendor == vendor:
                found = found.under(dialect.card_settings)
        return found

    @cached_property
    def request_keys(self) -> frozenset[str]:
        """The same of annotations by which pods request cards."""
        return frozenset(key for d in self.readers.values() for key in d.request_keys)


def _siblings(package: ModuleType) -> list[ModuleType]:
    names = sorted(found.name for found in pkgutil.iter_modules(package.__path__))
    return [importlib.import_module(f"{package.__name__}.{name}") for name in names]


def load(
    config: Mapping[str, Any] | None = None,
    extra: Iterable[ModuleType] = (),
    *,
    installed: bool = False,
) -> DialectRegistry:
    """Load every dialect that is not switched off.

    `config` maps a dialect's name to its options; the option `enabled: false` switches it off. It
    may be HAMi's `device-config.yaml`, as it is; what of that has no effect is in `ignored`.
    `extra` are dialect modules from elsewhere. `installed`: for pods that are really placed. A
    dialect whose module says `OPT_IN` is then left out, its nodes and running pods too, unless
    `config` names it. Raises BadConfiguration for an unknown dialect or option, and when two
    dialects own one resource name.
    """
    config = config or {}
    modules = {m.__name__.rpartition(".")[2]: m for m in (*_siblings(dialects), *extra)}
    config, ignored = _in_words_of_dialects(config, modules)
    unknown = sorted(set(config) - set(modules))
    if unknown:
        raise BadConfiguration(
            f"dialects.{unknown[0]}: no such dialect; known: {', '.join(modules)}"
        )
    opt_in = frozenset(name for name, module in modules.items() if getattr(module, "OPT_IN", False))
    readers, on, ordered = {}, {}, set()
    for name, module in modules.items():
        if installed and name in opt_in and name not in config:
            continue
        options, enabled = _options_of(name, config.get(name) or {})
        try:
            readers[name] = module.dialect(msgspec.convert(options, module.Options))
        except (msgspec.ValidationError, ValueError) as e:
            raise BadConfiguration(
                f"dialects.{name}: {e}; {_remedy(module.Options, str(e))}"
            ) from e
        if not set(_keys_in(options)).isdisjoint(getattr(module.Options, "ORDERS", ())):
            ordered.add(name)
        if enabled:
            on[name] = readers[name]
    keys = [key for d in readers.values() for key in d.result_keys]
    return DialectRegistry(
        dialects=on,
        readers=readers,
        result_keys=frozenset(k for k in keys if not k.endswith("*")),
        result_prefixes=(f"{GROUP}/", *(k[:-1] for k in keys if k.endswith("*"))),
        vendors={m.VENDOR.name: m.VENDOR for m in _siblings(vendors)},
        owners=_owners(on.values()),
        ordered=frozenset(ordered),
        opt_in=opt_in,
        ignored=ignored,
    )


def _in_words_of_dialects(
    config: Mapping[str, Any], modules: Mapping[str, ModuleType]
) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """The configuration by dialect, and what of it has no effect."""
    sections = {n: m.HAMI_SECTION for n, m in modules.items() if hasattr(m, "HAMI_SECTION")}
    if not is_device_config(config, sections):
        return config, ()
    read = translate_device_config(config, sections, modules)
    return read.options, read.ignored


def _remedy(options: type[msgspec.Struct], problem: str) -> str:
    """The words of the field that has a wrong one, else the names of all fields."""
    wrong, all_of = re.match(r"Invalid enum value .* at `\$\.(\w+)", problem), type_info(options)
    fields = all_of.fields if wrong is not None and isinstance(all_of, StructType) else ()
    words = [word for f in fields if wrong and f.name == wrong[1] for word in _words(f.type)]
    if words:
        return f"write one of {', '.join(words)}"
    return "options: " + ", ".join(("enabled", *options.__struct_fields__))


def _words(kind: Type) -> Iterable[str]:
    if isinstance(kind, VarTupleType):
        return _words(kind.item_type)
    return map(repr, kind.values) if isinstance(kind, LiteralType) else ()


def _options_of(name: str, written: object) -> tuple[dict[str, Any], bool]:
    """A dialect's options, and whether it is switched on."""
    if not isinstance(written, Mapping):
        raise BadConfiguration(f"dialects.{name}: {written!r}: write options and their values")
    options = dict(written)
    enabled = options.pop("enabled", True)
    if not isinstance(enabled, bool):
        raise BadConfiguration(f"dialects.{name}.enabled: {enabled!r}: write true or false")
    return options, enabled


def _keys_in(config: object) -> Iterator[str]:
    """Every key that says something, however deep, without what stands before its last dot."""
    if isinstance(config, Mapping):
        for key, value in config.items():
            if value not in ("", None):
                yield str(key).rpartition(".")[2]
            yield from _keys_in(value)
    elif isinstance(config, list):
        for value in config:
            yield from _keys_in(value)


def _owners(loaded: Iterable[Dialect]) -> dict[str, str]:
    owners: dict[str, str] = {}
    for dialect in loaded:
        for name in sorted(dialect.resources - dialect.shared_names):
            if name in owners:
                raise BadConfiguration(
                    f"resource {name} belongs to both {owners[name]} and {dialect.name}: "
                    "rename it in one of them or switch one off"
                )
            owners[name] = dialect.name
    return owners
