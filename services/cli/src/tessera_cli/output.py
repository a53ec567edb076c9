"""The answer as JSON: every key always there, so that a script needs no defaults."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from tessera_core.outcome import Outcome
from tessera_schema.grants import Share
from tessera_schema.injections import Injection

_encode: Final = msgspec.json.Encoder().encode


def chunks(outcomes: Iterable[Outcome]) -> Iterator[bytes]:
    """The document, pod by pod."""
    before = b'{"pods":['
    for outcome in outcomes:
        yield before + b"\n" + _encode(pod(outcome))
        before = b","
    yield (before if before != b"," else b"\n") + b"]}\n"


def pod(outcome: Outcome) -> dict[str, Any]:
    """One pod of the document."""
    meta = outcome.pod.metadata
    return {
        "namespace": meta.namespace or "default",
        "name": meta.name,
        "verdict": outcome.verdict.value,
        "dialect": ",".join(outcome.dialects),
        "node": outcome.node,
        "message": outcome.message,
        "mutated": {
            name: {"limits": after.limits, "requests": after.requests, "env": after.env}
            for name, after in outcome.containers.items()
        },
        "cards": [_card(share) for share in outcome.grant.shares] if outcome.grant else [],
        "annotations": outcome.annotations,
        "inject": {name: _given(given) for name, given in outcome.injections.items()},
        "reasons": [
            {"node": why.node, "code": why.reason.wire, "message": why.message}
            for why in outcome.reasons
        ],
        "warnings": outcome.warnings,
    }


def number(amount: float) -> int | float:
    """Whole numbers without a point."""
    return int(amount) if amount == int(amount) else amount


def _card(share: Share) -> dict[str, Any]:
    return {
        "container": share.container,
        "id": share.card,
        "index": share.index,
        "memory_mib": share.memory_mib,
        "cores_percent": number(share.cores_percent),
    }


def _given(injection: Injection) -> dict[str, Any]:
    return {
        "env": injection.env,
        "mounts": [
            {"destination": m.destination, "source": m.source, "read_only": m.read_only}
            for m in injection.mounts
        ],
        "devices": injection.devices,
    }
