"""Bindings that are under way, and those that were lost: nobody knows what became of them."""

from __future__ import annotations

from tessera_runtime.monotonic_clock import MonotonicClock


class BindingStore:
    """What bind calls and the settling of outcomes share."""

    def __init__(self, clock: MonotonicClock, *, late_s: float) -> None:
        """A lost Binding cannot be written any more after `late_s` seconds."""
        self._clock = clock
        self._late_s = late_s
        self._under_way: set[str] = set()
        self._lost: dict[str, float] = {}
        """Pod -> when its last Binding was given up."""

    def begin(self, uid: str) -> bool:
        """A bind call of the pod begins; False where one is under way already."""
        if uid in self._under_way:
            return False
        self._under_way.add(uid)
        return True

    def end(self, uid: str) -> None:
        """The pod's bind call has ended."""
        self._under_way.discard(uid)

    def is_under_way(self, uid: str) -> bool:
        """Whether a bind call of the pod has not ended."""
        return uid in self._under_way

    def lose(self, uid: str) -> None:
        """The outcome of the pod's Binding is not known. Its time runs from the first loss that was
        not forgotten since."""
        self._lost.setdefault(uid, self._clock.time())

    def forget(self, uid: str) -> None:
        """The outcome is known, or the pod is gone."""
        self._lost.pop(uid, None)

    def is_lost(self, uid: str) -> bool:
        """Whether the outcome of the pod's Binding is not known."""
        return uid in self._lost

    def now(self) -> float:
        """The moment of a read, for `is_too_late`."""
        return self._clock.time()

    def is_too_late(self, uid: str, read: float) -> bool:
        """Whether a pod that was read unbound at that moment cannot be bound by the lost Binding
        any more."""
        return read - self._lost.get(uid, read) >= self._late_s
