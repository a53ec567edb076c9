"""What Tessera's drop-in for containerd holds on a node, and whether containerd reads it so.

Nothing here knows what a release of containerd does with an import: `config dump` of the node's own
containerd is asked, without the drop-in and with it, and the two must differ in the drop-in's
settings and in nothing else (`problem_of`).
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from tessera_core.node.containerd_config import (
    ConfigPaths,
    ContainerdFiles,
    ContainerdRefused,
    Toml,
    version_of,
    with_import,
    without_import,
)

NRI: Final = "io.containerd.nri.v1.nri"
VALIDATOR: Final = "default_validator"
REQUIRED: Final = "required_plugins"
TOLERATE: Final = "tolerate_missing_plugins_annotation"
TOLERATED: Final = "tolerate-missing-plugins.noderesource.dev"
"""The annotation of Tessera's own pods, which start where the agent is required and away."""
TIMEOUT: Final = "plugin_request_timeout"
DEFAULT_TIMEOUT: Final = "2s"
"""containerd's own: an administrator who set another one has it."""
REQUIRES_SINCE: Final = (2, 2)
"""From this release on containerd can be configured to require a plugin."""
MERGES_SINCE: Final = (2, 0)
"""Older releases put an imported plugin's table in the place of the former one."""
HEAD: Final = """\
# Made by Tessera's component `containerd`, which writes it again.
# docs/operations.md has the way back.
"""
_VERSION: Final = re.compile(r"\bv?(\d+)\.(\d+)\.\d+")


class RuntimeFacts(Struct, frozen=True, kw_only=True):
    """What is known of a node's containerd."""

    release: tuple[int, int]
    """Such as (2, 2)."""
    bare: Toml
    """What `containerd config dump` prints without the drop-in."""


def release_of(printed: str) -> tuple[int, int]:
    """The release that `containerd --version` prints. Raises ContainerdRefused."""
    found = _VERSION.search(printed)
    if found is None:
        raise ContainerdRefused(
            f"containerd --version: {printed.strip()!r}: it names no release such as v2.2.0: "
            "configure this node by hand (docs/node.md)"
        )
    return int(found[1]), int(found[2])


def can_require(release: tuple[int, int]) -> bool:
    """Whether this containerd can be configured to create no container without the agent."""
    return release >= REQUIRES_SINCE


def already_requires(drop_in: bytes | None, plugin: str) -> bool:
    """Whether a drop-in that is there requires the plugin: so it does while the agent is down."""
    try:
        table = tomllib.loads((drop_in or b"").decode())["plugins"][NRI][VALIDATOR]
        return plugin in table[REQUIRED]
    except (ValueError, KeyError, TypeError):
        return False


def nri_is_on(bare: Toml) -> bool:
    """Whether containerd calls plugins without the drop-in. Raises ContainerdRefused."""
    return not _nri(bare).get("disable", True)


def requires(bare: Toml, plugin: str) -> bool:
    """Whether containerd requires the plugin without the drop-in. Raises ContainerdRefused."""
    return plugin in _nri(bare).get(VALIDATOR, {}).get(REQUIRED, ())


def lacking(runtime: RuntimeFacts, *, timeout: str, plugin: str) -> Toml:
    """What NRI's table has to get that it does not have. `plugin` is required, if it is not empty.
    Raises ContainerdRefused."""
    has = _nri(runtime.bare)
    lacks: Toml = {}
    if not nri_is_on(runtime.bare):
        lacks["disable"] = False
    if has.get(TIMEOUT) == DEFAULT_TIMEOUT:
        lacks[TIMEOUT] = timeout
    if not plugin:
        return lacks
    validator = has.get(VALIDATOR, {})
    if (other := validator.get(TOLERATE, "")) and other != TOLERATED:
        raise ContainerdRefused(
            f'{TOLERATE} = "{other}": Tessera\'s own pods have the annotation {TOLERATED} and '
            "would not start while the agent is down: take the other one out"
        )
    wanted = {
        "enable": True, REQUIRED: [*validator.get(REQUIRED, ()), plugin], TOLERATE: TOLERATED,
    }  # fmt: skip
    if plugin in validator.get(REQUIRED, ()):
        del wanted[REQUIRED]
    if missing := {k: v for k, v in wanted.items() if validator.get(k) != v}:
        lacks[VALIDATOR] = missing
    return lacks


def drop_in(version: int, runtime: RuntimeFacts, wanted: Toml) -> bytes | None:
    """The file with these settings of NRI's table; None where nothing is wanted. Raises
    ContainerdRefused."""
    if not wanted:
        return None
    whole = _nri(runtime.bare) if runtime.release < MERGES_SINCE else {}
    lines = [f"{HEAD}version = {version}\n"]
    lines += _table(["plugins", NRI], merged(whole, wanted))
    return "\n".join(lines).encode()


def candidates(
    present: ContainerdFiles, runtime: RuntimeFacts, wanted: Toml, paths: ConfigPaths
) -> Iterator[ContainerdFiles]:
    """The files that could give these settings, those that change less first: containerd says
    which one does. Raises ContainerdRefused."""
    default = VERSIONS_OF[runtime.release >= MERGES_SINCE]
    if not wanted:
        yield removed(present, runtime.release, paths)
        return
    version = version_of(present.config, paths.config, default)
    with_file = replace(present, drop_in=drop_in(version, runtime, wanted))
    if present.config is not None:
        yield with_file
    if without_import(present.config, paths, default) == present.config:
        yield replace(with_file, config=with_import(present.config, paths, default))


VERSIONS_OF: Final = {False: 2, True: 3}
"""Of a configuration that Tessera has to make: by whether the release merges tables."""


def removed(
    present: ContainerdFiles, release: tuple[int, int], paths: ConfigPaths
) -> ContainerdFiles:
    """The files without the drop-in and its import. Raises ContainerdRefused."""
    default = VERSIONS_OF[release >= MERGES_SINCE]
    return ContainerdFiles(without_import(present.config, paths, default), None)


def problem_of(bare: Toml, after: Toml, wanted: Toml) -> str:
    """Why a configuration with the drop-in is not the one without it and these settings; empty
    where it is. Both are dumps."""
    expected = merged(_rest(bare), {"plugins": {NRI: wanted}})
    if differing := sorted(_differing(expected, _rest(after))):
        return f"containerd would read other values of {', '.join(differing[:5])}"
    return ""


def merged(into: Mapping[str, Any], more: Mapping[str, Any]) -> Toml:
    """Tables with what another one sets in them."""
    made = dict(into)
    for key, value in more.items():
        old = made.get(key)
        both = isinstance(old, Mapping) and isinstance(value, Mapping)
        made[key] = merged(old, value) if both and isinstance(old, Mapping) else value
    return made


def _rest(dump: Toml) -> Toml:
    """All but the imports, which are the way and not the effect."""
    return {key: value for key, value in dump.items() if key != "imports"}


def _differing(expected: object, found: object, path: str = "") -> Iterator[str]:
    if isinstance(expected, dict) and isinstance(found, dict):
        for key in expected.keys() | found.keys():
            below = f"{path}.{key}" if path else key
            yield from _differing(expected.get(key), found.get(key), below)
    elif expected != found:
        yield path


def _nri(dump: Toml) -> Toml:
    found = dump.get("plugins", {}).get(NRI)
    if not isinstance(found, dict):
        raise ContainerdRefused(
            f"containerd's configuration has no plugin {NRI}: take it out of disabled_plugins, or "
            "upgrade to containerd 2.2 or newer"
        )
    return found


def _table(path: list[str], table: Toml) -> Iterator[str]:
    """A table and those within, indented as containerd prints them."""
    name = ".".join([path[0], *(_quoted(part) if "." in part else part for part in path[1:])])
    margin = "  " * (len(path) - 1)
    yield f"{margin}[{name}]"
    for key, value in table.items():
        if not isinstance(value, dict):
            yield f"{margin}  {key} = {_quoted(value)}"
    yield ""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _table([*path, key], value)


def _quoted(value: object) -> str:
    """As TOML writes it, which writes such values as JSON does."""
    return json.dumps(value, ensure_ascii=False)
