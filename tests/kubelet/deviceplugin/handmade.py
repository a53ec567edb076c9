"""Messages written by hand, from field numbers."""


def text(field: int, value: str | bytes) -> bytes:
    """A field of text, bytes or a message."""
    data = value.encode() if isinstance(value, str) else value
    return bytes([field << 3 | 2]) + _varint(len(data)) + data


def number(field: int, value: int) -> bytes:
    return bytes([field << 3]) + _varint(value)


def _varint(value: int) -> bytes:
    low, more = value & 0x7F, value >> 7
    return bytes([low | 0x80]) + _varint(more) if more else bytes([low])
