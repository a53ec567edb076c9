"""The dialects, as one file configures them for every service: the same names and switches must
hold for who admits, places, advertises and counts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from tessera_core.registry import registry
from tessera_core.registry.registry import BadConfiguration, DialectRegistry
from tessera_runtime.errors import BadSettings

Options = Mapping[str, Mapping[str, Any]]
"""Dialect -> option -> value."""


class DialectsSettings(Struct, frozen=True, kw_only=True):
    """Which dialects are served, and how."""

    file: Path | None = None
    """A YAML or JSON file: dialect -> option -> value, `enabled: false` among them; or HAMi's
    `device-config.yaml` as it is; none = the defaults of all, but for dialects that are left out
    unless they are named. Give every service the same."""


def load(file: Path | None, unsaid: Options | None = None) -> DialectRegistry:
    """The dialects as configured; `unsaid` holds where the file says nothing of an option. Reads a
    file: call it in a thread. Raises BadSettings."""
    config: dict[str, Any] = {}
    try:
        if file is not None:
            config = msgspec.yaml.decode(file.read_bytes(), type=dict[str, Any])
        for name, options in (unsaid or {}).items():
            config[name] = {**options, **config.get(name, {})}
        return registry.load(config, installed=True)
    except OSError as e:
        raise BadSettings(f"dialects.file: {file}: {e.strerror}: name a file to read") from e
    except (msgspec.DecodeError, BadConfiguration, ImportError) as e:
        raise BadSettings(f"dialects.file: {file}: {e}") from e
