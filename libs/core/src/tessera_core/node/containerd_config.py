"""A node's containerd configuration, and one import in it.

containerd reads `config.toml`, and then the files that its `imports` name. (2.2 prints a default
of `imports` in `config dump`, and reads nothing of it: only a line in the file counts.) The line
is edited as text, so that comments stay and taking it out leaves the bytes that were there.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from typing import Any, Final

from msgspec import Struct

Toml = dict[str, Any]

VERSIONS: Final = (2, 3)
"""Of the configuration: containerd 1.7 writes the first, 2.x the second and reads both."""
NOTE: Final = "  # by Tessera, for its drop-in"
MADE: Final = "# There was no configuration before: this file goes with the import.\n"
_KEY: Final = re.compile(r"""(?m)^[ \t]*(?:imports|"imports"|'imports')[ \t]*=[ \t]*\[""")
_MADE_BY_OTHERS: Final = re.compile("do not edit|is managed by|automatically generated", re.I)


class ContainerdRefused(Exception):
    """The configuration cannot be changed as it is; nothing was changed. The message names the
    file, what is wrong with it and the remedy."""


class ConfigPaths(Struct, frozen=True, kw_only=True):
    """Where containerd's files are on the node."""

    config: str = "/etc/containerd/config.toml"
    """What containerd is started with."""
    folder: str = "/etc/containerd/conf.d"
    """Where the drop-in is put."""

    @property
    def drop_in(self) -> str:
        """Tessera's file."""
        return f"{self.folder}/tessera.toml"

    @property
    def pattern(self) -> str:
        """What is imported. A pattern, so that containerd starts where the drop-in is gone; no
        `*.toml`, so that no other file is read that nobody imported before."""
        return f"{self.folder}/tessera*.toml"

    @property
    def backup(self) -> str:
        """The configuration as it was before the import was added."""
        return f"{self.config}.before-tessera"


class ContainerdFiles(Struct, frozen=True):
    """The two files of a node, None = it is not there."""

    config: bytes | None
    drop_in: bytes | None


def parsed(content: bytes | None, path: str) -> Toml:
    """A file's tables. Raises ContainerdRefused."""
    try:
        return tomllib.loads((content or b"").decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as e:
        raise ContainerdRefused(
            f"{path}: it is not TOML: {e}; containerd does not start with it: mend it"
        ) from e


def version_of(content: bytes | None, path: str, default: int) -> int:
    """The version of the configuration, `default` where there is no file. Raises
    ContainerdRefused."""
    found = parsed(content, path).get("version", 1) if content is not None else default
    if found not in VERSIONS:
        raise ContainerdRefused(
            f"{path}: version = {found}: only {' and '.join(map(str, VERSIONS))} can be extended: "
            f"`containerd config migrate` prints it in a newer version"
        )
    return int(found)


def imports_pattern(content: bytes | None, paths: ConfigPaths) -> bool:
    """Whether the configuration imports the drop-in by Tessera's own pattern. Raises
    ContainerdRefused."""
    return paths.pattern in _imports(parsed(content, paths.config))


def with_import(content: bytes | None, paths: ConfigPaths, default_version: int) -> bytes:
    """The configuration with the import, which it does not have. Raises ContainerdRefused."""
    line = f'imports = ["{paths.pattern}"]{NOTE}\n'
    if content is None:
        return f"{line}{MADE}version = {default_version}\n".encode()
    before, text = parsed(content, paths.config), content.decode()
    if _MADE_BY_OTHERS.search("\n".join(_head(text))):
        raise ContainerdRefused(
            f'{paths.config}: another tool writes it ("{_first_words(text)}") and would take the '
            f'import out again: add imports = ["{paths.pattern}"] to what it is made of'
        )
    wanted = {**before, "imports": [paths.pattern, *_imports(before)]}
    made = [line + text]
    if "imports" in before:
        entry = f'"{paths.pattern}", '
        made = [f"{text[: k.end()]}{entry}{text[k.end() :]}" for k in _KEY.finditer(text)]
    for candidate in made:
        if _reads_as(candidate, wanted):
            return candidate.encode()
    raise ContainerdRefused(
        f"{paths.config}: imports = {before.get('imports')!r}: the list could not be extended: "
        f'add "{paths.pattern}" to it'
    )


def without_import(content: bytes | None, paths: ConfigPaths, default_version: int) -> bytes | None:
    """The configuration without the import; None where Tessera made the file. Raises
    ContainerdRefused."""
    if content is None or content == with_import(None, paths, default_version):
        return None
    before, text = parsed(content, paths.config), content.decode()
    if paths.pattern not in _imports(before):
        return content
    left = [path for path in _imports(before) if path != paths.pattern]
    for candidate in _shortened(text, paths.pattern):
        if _reads_as(candidate, {**before, "imports": left}):
            return candidate.encode()
    raise ContainerdRefused(
        f'{paths.config}: imports = {before["imports"]!r}: "{paths.pattern}" could not be taken '
        f"out: take it out by hand"
    )


def _shortened(text: str, pattern: str) -> Iterator[str]:
    """The text without the import, as it was added first, then as other tools may write it."""
    line = f'imports = ["{pattern}"]{NOTE}\n'
    if line in text:
        yield text.replace(line, "", 1)
    entry = f'"{pattern}", '
    if entry in text:
        yield text.replace(entry, "", 1)
    yield re.sub(rf"""["']{re.escape(pattern)}["'][ \t]*,?[ \t]*""", "", text, count=1)


def _imports(tables: Toml) -> list[str]:
    found = tables.get("imports", [])
    return found if isinstance(found, list) else []


def _reads_as(text: str, wanted: Toml) -> bool:
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False
    return {"imports": [], **found} == {"imports": [], **wanted}


def _head(text: str) -> Iterator[str]:
    """The comments with which it begins."""
    for line in text.splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            return
        yield line


def _first_words(text: str) -> str:
    found = next(line for line in _head(text) if _MADE_BY_OTHERS.search(line))
    return found.lstrip("# ")[:80]
