"""The configuration file of `--config`: which dialects are on, and their options."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tessera_cli.errors import BadConfigFile
from tessera_cli.input.manifests import named, printable_key
from tessera_cli.input.yaml_values import BadYaml, documents
from tessera_core.registry.registry import BadConfiguration, DialectRegistry, load


def registry(path: str | None) -> DialectRegistry:
    """The dialects as the file wants them, all of them without a file. Raises BadConfigFile."""
    config = _dialects(path) if path is not None else {}
    try:
        return load(config)
    except BadConfiguration as e:
        raise BadConfigFile(path or "", str(e)) from e


def _dialects(path: str) -> Mapping[str, Mapping[str, Any]]:
    try:
        text = Path(path).read_text(encoding="utf-8")
        whole: Any = next(documents(text), (1, {}))[1]
    except (OSError, UnicodeDecodeError, BadYaml) as e:
        raise BadConfigFile(path, str(e), "write a YAML file with the key dialects") from e
    if not isinstance(whole, dict):
        said = named(whole) if isinstance(whole, list | None) else "text or a number"
        raise BadConfigFile(path, said, "write a mapping with the key dialects")
    unknown = next((key for key in whole if key != "dialects"), None)
    if unknown is not None:
        raise BadConfigFile(path, printable_key(unknown), "unknown key", "write dialects")
    dialects = {} if whole.get("dialects") is None else whole["dialects"]
    if not isinstance(dialects, dict):
        raise BadConfigFile(path, "dialects", named(dialects), "write a mapping of dialects")
    for name, options in dialects.items():
        if not isinstance(options, dict | None):
            raise BadConfigFile(
                path, f"dialects.{name}", named(options), "write a mapping of options"
            )
    return dialects
