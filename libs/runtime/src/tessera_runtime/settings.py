"""Settings from the environment, read once, refused when they make no sense.

A service describes its settings as nested frozen Structs; `load` fills them from variables
`TESSERA_<FIELD>_<SUBFIELD>`, where a field that msgspec renames (`field(name="books")`) goes by
that name. A field may name a variable of somebody else's instead: `Annotated[str,
variable("KUBECONFIG")]`. Every problem is reported at once, and a variable that nobody reads stops
the process: a misspelt limit must not silently be the default.

Values are never secrets themselves, with few exceptions, which are not repeated in messages.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar, get_args, get_origin

import msgspec
from msgspec import Meta, Struct

from tessera_runtime.errors import BadSettings

S = TypeVar("S", bound=Struct)

PREFIX: Final = "TESSERA_"
_SECRET: Final = re.compile(r"(PASSWORD|SECRET|TOKEN)$")
_LINK: Final = re.compile(r"(SERVICE_HOST|SERVICE_PORT(_.*)?|PORT(_\d+_(TCP|UDP|SCTP)(_.*)?)?)$")
"""Ends of the variables that Kubernetes sets in every pod for each Service of its namespace."""


def variable(name: str) -> Meta:
    """Makes a field read this variable, whatever its path: for names that others settled."""
    return Meta(extra={"variable": name})


class _Leaf(Struct, frozen=True):
    """One variable, and the field that it fills."""

    path: tuple[str, ...]
    kind: Any
    required: bool

    @property
    def variable(self) -> str:
        for meta in _metas(self.kind):
            if meta.extra and "variable" in meta.extra:
                return str(meta.extra["variable"])
        return PREFIX + "_".join(self.path).upper()


def load(kind: type[S], environ: Mapping[str, str]) -> S:
    """The settings that the environment asks for, checked: a section's `check()` is called.

    Numbers, booleans (`true`, `false`, `1`, `0`), text, paths, enums, and tuples of these with
    commas between. Raises BadSettings naming each wrong variable, its value and what would do.
    """
    leaves = {leaf.variable: leaf for leaf in _leaves(kind, ())}
    values: dict[str, Any] = {}
    problems = [*_strangers(leaves, environ)]
    for name, leaf in leaves.items():
        try:
            if name in environ:
                _put(values, leaf.path, _read(name, leaf.kind, environ[name]))
            elif leaf.required:
                problems.append(f"{name}: not set: write {_wanted(leaf.kind)}")
        except BadSettings as e:
            problems.append(str(e))
    if problems:
        raise BadSettings("; ".join(problems))
    made = _make(kind, values)
    problems = [*_unchecked(made)]
    if problems:
        raise BadSettings("; ".join(problems))
    return made


def variables(kind: type[Struct]) -> list[str]:
    """Every variable that these settings read, in order of their fields."""
    return [leaf.variable for leaf in _leaves(kind, ())]


def _leaves(kind: type[Struct], path: tuple[str, ...]) -> Iterator[_Leaf]:
    for field in msgspec.structs.fields(kind):
        here = (*path, field.encode_name)
        if _is_section(field.type):
            yield from _leaves(field.type, here)
        else:
            yield _Leaf(here, field.type, field.required)


def _is_section(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, Struct)


def _metas(kind: object) -> list[Meta]:
    if get_origin(kind) is not Annotated:
        return []
    return [meta for meta in get_args(kind)[1:] if isinstance(meta, Meta)]


def _put(values: dict[str, Any], path: tuple[str, ...], value: object) -> None:
    for name in path[:-1]:
        values = values.setdefault(name, {})
    values[path[-1]] = value


def _make(kind: type[S], values: Mapping[str, Any]) -> S:
    """Defaults of a section may be another section than its class's: only what is set changes."""
    made: dict[str, Any] = {}
    for field in msgspec.structs.fields(kind):
        if field.encode_name not in values and not _is_section(field.type):
            continue
        given = values.get(field.encode_name, {})
        if not _is_section(field.type):
            made[field.name] = given
        elif field.default is msgspec.NODEFAULT and field.default_factory is msgspec.NODEFAULT:
            made[field.name] = _make(field.type, given)
        else:
            default = field.default
            if default is msgspec.NODEFAULT:
                default = field.default_factory()
            made[field.name] = _changed(default, given)
    return kind(**made)


def _changed(section: S, values: Mapping[str, Any]) -> S:
    changes: dict[str, Any] = {}
    for field in msgspec.structs.fields(section):
        if field.encode_name in values:
            value = values[field.encode_name]
            inner = isinstance(value, dict)
            changes[field.name] = _changed(getattr(section, field.name), value) if inner else value
    return msgspec.structs.replace(section, **changes)


def _read(name: str, kind: Any, text: str) -> object:
    plain = get_args(kind)[0] if get_origin(kind) is Annotated else kind
    value: object = text
    if get_origin(plain) is tuple:
        value = [part.strip() for part in text.split(",") if part.strip()]
    try:
        read = msgspec.convert(value, kind, strict=False, dec_hook=_path)
    except msgspec.ValidationError as e:
        raise BadSettings(f"{name}: {_printable(name, text)}: {_reason(e, kind)}") from e
    if isinstance(read, float) and not math.isfinite(read):
        raise BadSettings(f"{name}: {text!r}: write a finite number")
    return read


def _path(kind: type, value: object) -> object:
    if kind is Path:
        return Path(str(value))
    raise NotImplementedError(kind)


def _printable(name: str, text: str) -> str:
    if _SECRET.search(name):
        return f"{len(text)} characters"
    hint = " (set by Kubernetes for a Service: enableServiceLinks: false)"
    return repr(text[:100]) + (hint if "://" in text and name.endswith("_PORT") else "")


def _reason(error: msgspec.ValidationError, kind: object) -> str:
    text = str(error).replace("Expected", "expected").replace("`", "")
    return f"{text}: write {_wanted(kind)}"


_NEAR: Final = 0.7
"""Of difflib's ratio: names that share less are other words, no misspelt ones."""
_WANTED: Final[Mapping[object, str]] = {
    bool: "true or false", int: "a whole number", float: "a number", str: "text", Path: "a path",
}  # fmt: skip


def _wanted(kind: Any) -> str:
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if get_origin(kind) is tuple:
        return f"a list with commas between, of {_wanted(get_args(kind)[0])}"
    if kind in _WANTED:
        return _WANTED[kind]
    if hasattr(kind, "__members__"):
        return f"one of {', '.join(str(member.value) for member in kind)}"
    wanted = [_wanted(k) for k in get_args(kind) if k is not type(None)]
    return " or ".join(wanted) or str(kind)


def _strangers(leaves: Mapping[str, _Leaf], environ: Mapping[str, str]) -> Iterator[str]:
    for name in sorted(environ):
        if not name.startswith(PREFIX) or name in leaves or _is_link(name, environ):
            continue
        ends = [leaf.removeprefix(PREFIX) for leaf in leaves]
        near = difflib.get_close_matches(name.removeprefix(PREFIX), ends, n=1, cutoff=_NEAR)
        yield f"{name}: nothing reads it: unset it" + "".join(
            f", or write {PREFIX}{n}" for n in near
        )


def _is_link(name: str, environ: Mapping[str, str]) -> bool:
    """True for what Kubernetes sets because a Service of this namespace is named `tessera-...`."""
    end = _LINK.search(name)
    while end is not None:
        if name[: end.start()] + "SERVICE_HOST" in environ:
            return True
        end = _LINK.search(name, end.start() + 1)
    return False


def _unchecked(section: Struct) -> Iterator[str]:
    check = getattr(section, "check", None)
    if check is not None:
        try:
            check()
        except BadSettings as e:
            yield str(e)
    for field in msgspec.structs.fields(section):
        value = getattr(section, field.name)
        if isinstance(value, Struct):
            yield from _unchecked(value)
