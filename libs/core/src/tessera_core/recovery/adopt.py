"""What a bound pod holds, from what was written on it: by us, or by the system it was placed by.

Tenants can write annotations. With a verifier only what the scheduler signed is a grant;
what another system wrote counts only where the caller says so.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from tessera_core.grants.checks import credible
from tessera_core.registry.registry import DialectRegistry
from tessera_core.trust.grants import Verifier
from tessera_schema.cards import Card
from tessera_schema.grants import GRANT_KEY, Grant, Share, UnknownGrantVersion, decode_grant
from tessera_schema.kube import Pod


class Adopted(Struct, frozen=True, kw_only=True):
    """The pod's shares as written. `problem` is set when something on it cannot be read."""

    grant: Grant | None = None
    problem: str = ""
    unknown_version: bool = False
    """A newer release's grant: its node is to be treated as full."""
    forged: bool = False
    """The pod carries a grant that our scheduler did not make for it: it counts nothing, and
    somebody should know. `problem` says what is wrong with it."""


def adopt(
    registry: DialectRegistry, pod: Pod, cards: Sequence[Card], *, verifier: Verifier | None = None,
    others: bool = True,
) -> Adopted:  # fmt: skip
    """Read the pod's own grant, else (if `others` count) every dialect's result annotations.

    Without a verifier signatures are not looked at: for plans, never for a ledger that counts.
    """
    text = pod.metadata.annotations.get(GRANT_KEY)
    own = None if text is None else _granted(pod, text, verifier)
    if own is not None and not (own.forged and others):
        return own
    recorded = _recorded(registry, pod, cards) if others else Adopted()
    if own is None:
        return recorded
    problem = "; ".join(p for p in (own.problem, recorded.problem) if p)
    return Adopted(grant=recorded.grant, problem=problem, forged=True)


def _recorded(registry: DialectRegistry, pod: Pod, cards: Sequence[Card]) -> Adopted:
    shares: list[Share] = []
    problems = []
    for dialect in registry.readers.values():
        held = dialect.recorded(pod, [c for c in cards if c.vendor == dialect.vendor])
        if held is not None:
            shares += held.shares
            if not all(credible(share) for share in held.shares):
                problems.append(f"{dialect.name}: its annotations have shares beyond belief")
            if held.problem:
                problems.append(f"{dialect.name}: {held.problem}")
    grant = Grant(
        uid=pod.metadata.uid, namespace=pod.metadata.namespace or "default",
        name=pod.metadata.name, node=pod.spec.node_name,
        shares=tuple(sorted(shares, key=lambda s: s.position)),
    )  # fmt: skip
    return Adopted(grant=grant if shares and not problems else None, problem="; ".join(problems))


def _granted(pod: Pod, text: str, verifier: Verifier | None) -> Adopted:
    problem = "" if verifier is None else verifier.problem(text)
    if problem:
        return Adopted(problem=f"annotation {GRANT_KEY}: {problem}", forged=True)
    try:
        grant = decode_grant(text)
    except UnknownGrantVersion as e:
        return Adopted(problem=str(e), unknown_version=True)
    except msgspec.DecodeError as e:
        return Adopted(problem=f"annotation {GRANT_KEY}: {e}")
    if not all(credible(share) for share in grant.shares):
        return Adopted(problem=f"annotation {GRANT_KEY} has shares beyond belief")
    if grant.uid != pod.metadata.uid or grant.node != pod.spec.node_name:
        return Adopted(
            problem=f"annotation {GRANT_KEY} belongs to another pod or node",
            forged=verifier is not None,
        )
    return Adopted(grant=grant)
