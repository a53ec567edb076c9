"""What follows from changes in the ledger, as events that others subscribe to.

The composition root makes one `PodEvents` before the caches, hands it to all that publish, and then
subscribes those who act. Subscribers are called at once, in the order in which they subscribed;
they are quick and never fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, ParamSpec

from tessera_runtime.kube.binding import PodKey
from tessera_schema.grants import Grant

P = ParamSpec("P")


class Signal(Generic[P]):
    """One kind of event, and those who subscribed to it."""

    def __init__(self) -> None:
        self._subscribers: list[Callable[P, None]] = []

    def subscribe(self, *subscribers: Callable[P, None]) -> None:
        """Call these whenever it is published."""
        self._subscribers += subscribers

    def publish(self, *args: P.args, **kwargs: P.kwargs) -> None:
        """Call all subscribers."""
        for subscriber in self._subscribers:
            subscriber(*args, **kwargs)


class PodEvents:
    """The events of the ledger's pods."""

    def __init__(self) -> None:
        self.bound = Signal[[Grant]]()
        """A pod was bound by this replica with its cards; published once for each."""
        self.gone = Signal[[str]]()
        """A pod (uid) has ended, bound or not."""
        self.released = Signal[[Grant]]()
        """A bound pod's cards are free again; `gone` was published before."""
        self.freed = Signal[[]]()
        """Something became free in a way that Kubernetes does not show."""
        self.doubted = Signal[[PodKey]]()
        """Only a quorum read can show what has become of the pod."""
        self.grant_changed = Signal[[PodKey]]()
        """The pod lost its grant, or carries another one than it has."""
        self.resize_requested = Signal[[PodKey]]()
        """A bound pod asks for other amounts."""
