"""Conditions on labels, as Kubernetes writes them, in one flat form.

`tessera_core.kube.label_selectors` reads and matches them.
"""

from __future__ import annotations

from msgspec import Struct


class LabelTest(Struct, frozen=True):
    """One condition on one label."""

    key: str
    operator: str
    """In, NotIn, Exists or DoesNotExist."""
    values: tuple[str, ...] = ()

    def __str__(self) -> str:
        """As messages print it, such as `team In (a, b)`."""
        return f"{self.key} {self.operator} ({', '.join(self.values)})".removesuffix(" ()")


Selector = tuple[LabelTest, ...]
"""All of them must hold; none = everything is selected."""
