"""What a span is, whether or not anything records it."""

from __future__ import annotations

Attribute = str | bool | int | float


class Span:
    """Something that goes on. This class records nothing and passes its parent on."""

    def __init__(self, traceparent: str) -> None:
        self.traceparent = traceparent
        """What children name as their parent; empty when there is no trace."""

    def set(self, **attributes: Attribute | None) -> None:
        """Add attributes. None is left out; `__` in a name becomes a dot."""

    def failed(self, why: str) -> None:
        """Mark it as gone wrong."""

    def end(self) -> None:
        """It is over; `span` calls this."""
