"""On what terms a container takes part in lending, and whom it may hold: what its dialect, its
variables and its pod's annotations say.

HAMi's two variables are read as HAMi reads them. Priorities are its containers' alone: no other
dialect has them, so its pods neither hold others nor are held. GPU Manager's ceiling is read where
the scheduler writes it for its node's agent: among the container's own annotations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from tessera_agent.given import POLICY, PRIORITY
from tessera_core.dialect import Dialect
from tessera_core.rebalance.lending import FULL
from tessera_schema.grants import Share
from tessera_schema.keys import LENDING_KEY
from tessera_schema.kube import ObjectMeta, Pod

_RANKED: Final = "hami"
"""The dialect whose containers have priorities."""
_LOW: Final = 1
"""The priority of such a container that names none: 0 goes before it."""
_PERMILLE: Final = 10
_DIGITS: Final = 9
_CEILING: Final = "/vcuda-core-limit"
"""Ends GPU Manager's annotation, whose prefixes are several."""


class Terms(Struct, frozen=True, kw_only=True):
    """One container's."""

    most_permille: int = FULL
    """Of a card, up to which it may be lent to; at or below what it was granted: nothing is."""
    lends: bool = True
    """False = nothing is lent to it or of it."""
    priority: int | None = None
    """Lower goes before higher; None = it has none."""


def terms_of(
    dialects: Mapping[str, Dialect],
    annotations: Mapping[str, str],
    shares: Sequence[Share],
    env: Mapping[str, str],
    noted: Mapping[str, str],
) -> Terms:
    """`annotations` are the pod's; `shares`, `env` and what is `noted` the container's."""
    pod = Pod(metadata=ObjectMeta(annotations=dict(annotations)))
    spoken = {share.dialect for share in shares}
    ceilings = [dialects[name].ceiling(pod) for name in spoken if name in dialects]
    most = min((c for c in ceilings if c is not None), default=FULL / _PERMILLE)
    written = next((text for key, text in noted.items() if key.endswith(_CEILING)), "")
    if written.isascii() and written.isdecimal() and len(written) <= _DIGITS:
        most = float(written)
    if env.get(POLICY, "").lower() == "force":
        most = 0
    return Terms(
        most_permille=round(most * _PERMILLE), lends=lends(annotations),
        priority=_priority(env) if _RANKED in spoken else None,
    )  # fmt: skip


def lends(annotations: Mapping[str, str]) -> bool:
    """Whether the pod takes part in lending."""
    return annotations.get(LENDING_KEY) != "false"


def _priority(env: Mapping[str, str]) -> int:
    text = env.get(PRIORITY, "")
    known = text.isascii() and text.isdecimal() and len(text) <= _DIGITS
    return int(text) if known else _LOW
