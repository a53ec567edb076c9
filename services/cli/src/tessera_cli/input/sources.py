"""The texts that `-f` names: files, folders of manifests, standard input."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, Final

from msgspec import Struct

from tessera_cli.errors import InputTooLarge, InputUnreadable, Repeated

JSON_LIMIT: Final = 1 << 30
YAML_LIMIT: Final = 64 << 20
SUFFIXES: Final = (".yaml", ".yml", ".json")


class Source(Struct, frozen=True):
    """One text. Its bytes are read when it is its turn, so that only one is held at a time."""

    name: str
    path: Path | None = None
    """None = standard input."""
    listed: bool = False
    """Found in a folder, not named itself."""


def sources(names: Sequence[str], *, recursive: bool = False) -> list[Source]:
    """Every text that the names stand for, folders in alphabetical order; what is in folders of
    a folder only when `recursive`, as kubectl does it.

    Raises InputUnreadable for what is not there, Repeated for what is named twice.
    """
    seen: dict[Path | None, str] = {}
    found: list[Source] = []
    for name in names:
        for source in _under(name, recursive=recursive):
            key = source.path.resolve() if source.path is not None else None
            if key in seen:
                raise Repeated(
                    source.name, f"read twice (-f {seen[key]}, -f {name})", "name it once"
                )
            seen[key] = name
            found.append(source)
    return found


def read(source: Source, stdin: BinaryIO) -> bytes:
    """The bytes of the text. Raises InputUnreadable or InputTooLarge."""
    if source.path is None:
        data = stdin.read(JSON_LIMIT + 1)
    else:
        try:
            if source.path.stat().st_size > JSON_LIMIT:
                raise _too_large(source.name, source.path.stat().st_size)
            with source.path.open("rb") as file:
                data = file.read(JSON_LIMIT + 1)
        except OSError as e:
            raise InputUnreadable(
                source.name, e.strerror or str(e), "name a file that can be read"
            ) from e
    if len(data) > JSON_LIMIT:
        raise _too_large(source.name, len(data))
    return data


def _under(name: str, *, recursive: bool) -> list[Source]:
    if name == "-":
        return [Source("standard input")]
    path = Path(name)
    try:
        if not path.is_dir():
            if not path.exists():
                raise InputUnreadable(
                    name, "no such file or folder", "name one, or - for standard input"
                )
            return [Source(name, path)]
        found = sorted(
            p
            for p in (path.rglob("*") if recursive else path.iterdir())
            if p.suffix in SUFFIXES and p.is_file()
        )
    except (OSError, ValueError) as e:
        raise InputUnreadable(name, str(e), "name a file or folder that can be read") from e
    if not found:
        raise InputUnreadable(
            name,
            f"no {', '.join(SUFFIXES)} files in this folder",
            "name the folder of manifests, or add -R for the folders in it",
        )
    return [Source(str(p), p, listed=True) for p in found]


def _too_large(name: str, size: int) -> InputTooLarge:
    return InputTooLarge(
        name,
        f"{size >> 20} MiB or more of text, at most {JSON_LIMIT >> 20} MiB are read",
        "leave out what planning does not need: get nodes and pods only, or by --selector",
    )
