"""How the records of the hook's files are declared: fields in order, offsets counted from them.

The C headers (`libs/hook/include/tessera`) are the original; a test compares every offset and
size with what the library itself prints.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from struct import Struct as Packed
from struct import calcsize
from typing import Any, Final

ORDER: Final = "="
"""The machine's byte order, nothing between fields: both sides run on one machine."""
LAYOUT: Final = 1
CARDS: Final = 16
UUID_BYTES: Final = 64


class RecordLayout:
    """One C struct: field name -> format; `size` bytes in all."""

    __slots__ = ("_end", "_packed", "formats", "name", "offsets", "size")

    def __init__(self, name: str, size: int, formats: Mapping[str, str]) -> None:
        """Fields up to the last one named here; what follows up to `size` is reserved."""
        self.name = name
        self.size = size
        self.formats = dict(formats)
        self.offsets: dict[str, int] = {}
        at = 0
        for field, form in formats.items():
            self.offsets[field] = at
            at += calcsize(ORDER + form)
        self._end = at
        self._packed = Packed(ORDER + "".join(formats.values()) + f"{size - at}x")

    def read(self, data: bytes | bytearray, at: int = 0) -> dict[str, Any]:
        """The fields that lie at `at`. The caller makes sure that `data` is long enough."""
        values = self._packed.unpack_from(data, at)
        return dict(zip(self.formats, values, strict=True))

    def pack(self, into: bytearray, at: int, *values: int | bytes) -> None:
        """Fill the fields at `at`, in their order. Numbers must fit: struct.error."""
        self._packed.pack_into(into, at, *values)

    def only(self, *fields: str) -> Packed:
        """Reads these fields, named in the record's order, and skips the others: to copy what is
        reserved takes longer than all numbers."""
        forms = (
            form if field in fields else f"{calcsize(ORDER + form)}x"
            for field, form in self.formats.items()
        )
        return Packed(f"{ORDER}{''.join(forms)}{self._packed.size - self._end}x")

    def packed(self, first: str, last: str) -> Packed:
        """All fields from one to another, both included."""
        names = list(self.formats)
        between = names[names.index(first) : names.index(last) + 1]
        return Packed(ORDER + "".join(self.formats[name] for name in between))

    def field_size(self, field: str) -> int:
        """Bytes of one field."""
        return calcsize(ORDER + self.formats[field])


HEAD: Final = RecordLayout(
    "tessera_head", 64,
    {
        "layout": "I", "size": "I", "cards": "I", "sequence": "I", "written_ns": "Q",
        "reserved": "32s", "magic": "Q",
    },
)  # fmt: skip


@lru_cache(4096)
def uuid_key(uuid: str) -> str:
    """What two spellings of a card's id have in common: `GPU-` and `MIG-` are not compared."""
    low = uuid.lower()
    return low.removeprefix("gpu-").removeprefix("mig-")


def text_of(data: bytes) -> str:
    """NUL-padded bytes as text; whatever is not printable ASCII becomes `?`."""
    plain = data.partition(b"\0")[0].decode("ascii", "replace")
    if plain.isascii() and plain.isprintable():
        return plain
    return "".join(c if c.isascii() and c.isprintable() else "?" for c in plain)


def padded(text: str, size: int) -> bytes:
    """Text as bytes of at most `size - 1`, so that a NUL always ends it."""
    return text.encode("ascii", "replace")[: size - 1]
