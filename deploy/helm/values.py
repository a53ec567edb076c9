"""The values of the chart, as `values.yaml` lists them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

Json = dict[str, Any]

_SOURCE: Final[Json] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8"))
COMPONENTS: Final[Mapping[str, str]] = _SOURCE["components"]
"""The components of deploy/kustomize, in the order in which they are applied: where two change the
same field, the later one counts."""


class Value(NamedTuple):
    """One value."""

    path: str
    """Its name, with dots."""
    default: Any
    text: str
    """What it does."""
    kind: Json | None = None
    """Its schema; none = the type of the default."""


class Section(NamedTuple):
    """Values under a headline."""

    text: str
    values: tuple[Value, ...]


class Base(NamedTuple):
    """What the base says that values repeat."""

    images: Mapping[str, str]
    """Name of an image -> its reference."""
    connection: Mapping[str, int]
    """kube-scheduler's `clientConnection`."""
    vendors: tuple[str, ...]
    dialects: tuple[str, ...]


def sections(base: Base) -> Iterator[Section]:
    """All values."""
    registry, _, version = _parts(base.images["scheduler"])
    known = {"own": registry, "version": version, **base.connection}
    for said in _SOURCE["sections"]:
        if "vendors" in said:
            for vendor in base.vendors:
                about = f"vendors.{vendor}"
                own = Value(f"{about}.enabled", True, said["enabled"])  # noqa: FBT003  (a default)
                blocks = (*_block("container", about, {}), *_block("pod", about, {}))
                yield Section(said["vendors"].format(vendor=vendor), (own, *blocks))
        else:
            yield Section(said["text"], tuple(_values(said, base, known)))


def _values(said: Json, base: Base, known: Mapping[str, Any]) -> Iterator[Value]:
    if "components" in said:
        yield from (Value(f"components.{n}", False, t) for n, t in COMPONENTS.items())  # noqa: FBT003  (a default)
    if "dialects" in said:
        yield from (Value(f"dialects.{n}", {}, said["dialects"]) for n in base.dialects)
    yield from _listed("", said.get("values", {}), known)
    if "service" in said:
        name = said["service"]
        said = {"image": {"of": name, "name": name}, "container": name, "pod": name}
    if "image" in said:
        image = dict(
            zip(
                ("registry", "name", "tag"), _parts(base.images[said["image"]["name"]]), strict=True
            )
        )
        if image["registry"] == known["own"]:
            image |= {"registry": "", "tag": ""}
        yield from _block("image", said["image"]["of"], image)
    for block in ("container", "pod"):
        if block in said:
            yield from _block(block, said[block], {})


def _block(name: str, of: str, known: Mapping[str, Any]) -> Iterator[Value]:
    return _listed(f"{of}.", _SOURCE["blocks"][name], known)


def _listed(of: str, listed: Mapping[str, list[Any]], known: Mapping[str, Any]) -> Iterator[Value]:
    for name, (default, *about) in listed.items():
        if isinstance(default, str) and default.startswith("{"):
            default = known[default.strip("{}")]
        yield Value(f"{of}{name}", default, *about)


def _parts(reference: str) -> tuple[str, str, str]:
    """Registry with folder, name and tag of an image."""
    rest, _, tag = reference.rpartition(":")
    registry, _, name = rest.rpartition("/")
    return registry, name, tag
