"""Lists and watch events, taken apart without decoding more than is kept."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Final, Generic, TypeVar

import msgspec
from msgspec import Raw, Struct

from tessera_runtime.errors import ApiLost
from tessera_runtime.kube.api import NONE, Kube, Verb
from tessera_schema.json_codec import decoder

T = TypeVar("T")

BOOKMARK: Final = "BOOKMARK"
ERROR: Final = "ERROR"
DELETED: Final = "DELETED"


class ListMeta(Struct, frozen=True, rename="camel"):
    """Where a list stands."""

    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class Page(Struct, frozen=True):
    """One answer of a list; its objects are still bytes."""

    metadata: ListMeta = ListMeta()
    items: list[Raw] | None = None


class WatchEvent(Struct, frozen=True):
    """One line of a watch."""

    type: str
    object: Raw


class Identity(Struct, frozen=True, rename="camel"):
    """Which object, at which version."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _Object(Struct, frozen=True):
    metadata: Identity = Identity()


class UnreadableObject(Struct, frozen=True):
    """An object that does not have the form that we expect."""

    path: str
    """Of the list that it belongs to."""
    object: Identity
    """As far as it could be read."""
    why: str


read_page: Final = decoder(Page)
read_event: Final = decoder(WatchEvent)
_read_object: Final = decoder(_Object)


_BEGINS: Final[Mapping[bytes, str]] = {
    b'{"type":"%b","object":{' % kind.encode(): kind
    for kind in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR")
}
_LONGEST: Final = max(map(len, _BEGINS))


def event_of(line: bytes) -> tuple[str, bytes, str]:
    """A line of a watch: its type, its object, and the object's resourceVersion. Raises
    msgspec.DecodeError.

    API servers write type and object in this order without spaces, so the object need not be looked
    for: to skip one of 3 kB costs as much as to read it. Whatever is written otherwise is decoded.
    """
    over = line.find(b"{", 1, _LONGEST)
    kind = _BEGINS.get(line[: over + 1])
    if kind is not None and line.endswith(b"}"):
        raw = line[over:-1]
        try:
            return kind, raw, _read_object(raw).metadata.resource_version
        except msgspec.DecodeError:  # it says where in the line
            pass
    event = read_event(line)
    raw = bytes(event.object)
    return event.type, raw, identity(raw).resource_version


def identity(raw: bytes | Raw) -> Identity:
    """Which object these bytes are; empty where even that cannot be read."""
    try:
        return _read_object(bytes(raw)).metadata
    except msgspec.DecodeError:
        return Identity()


class ObjectReader(Generic[T]):
    """Reads objects of one list; those that cannot be read are reported, and left out."""

    def __init__(
        self, path: str, read: Callable[[bytes], T], unreadable: Callable[[UnreadableObject], None]
    ) -> None:
        self._path = path
        self._read = read
        self._unreadable = unreadable

    def objects(self, page: Page) -> list[T]:
        """The objects of a page."""
        return [item for raw in page.items or () for item in self.one(raw)]

    def one(self, raw: bytes | Raw) -> tuple[T] | tuple[()]:
        """The object, unless it cannot be read."""
        try:
            return (self._read(bytes(raw)),)
        except (msgspec.DecodeError, ValueError) as e:
            self._unreadable(UnreadableObject(self._path, identity(raw), str(e)))
            return ()


async def pages(
    kube: Kube, path: str, *, limit: int, query: Mapping[str, str] = NONE
) -> AsyncGenerator[Page]:
    """A list, page by page, all of one moment: the first page is a quorum read.

    Raises as `Kube.call` does, ApiExpired among them when the list took so long that the server
    forgot that moment; ApiLost for an answer that is no list.
    """
    more = {**query, "limit": str(limit)}
    while True:
        answer = await kube.call(Verb.GET, path, query=more)
        try:
            page = read_page(answer)
        except msgspec.DecodeError as e:
            raise ApiLost(f"list {path}: not a list: {e}") from e
        yield page
        if not page.metadata.continue_:
            return
        more["continue"] = page.metadata.continue_
