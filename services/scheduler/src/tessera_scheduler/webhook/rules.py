"""What an answer depends on besides the request: the cluster's rules, the pod's namespace."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from tessera_core.ownenv import OWN_ENVIRONMENT, Guarded, guarded_by
from tessera_core.quota import NO_LIMITS, Allowance
from tessera_core.registry import Registry
from tessera_core.remembered import Admissions
from tessera_schema.keys import SCHEDULER


class Rules(Struct, frozen=True, kw_only=True):
    """What does not change while the service runs."""

    registry: Registry
    admissions: Admissions
    guarded: Guarded
    schedulers: frozenset[str]
    """The names that Tessera's kube-scheduler serves."""
    opt_outs: Sequence[tuple[str, str]]
    """Label and value by which a pod, or its namespace, asks to be left alone."""
    take_default: bool
    """Whether pods of the default scheduler that ask for shares become ours."""
    writers: frozenset[str]
    """Users and groups that may write result keys on pods that exist."""


class Setting(Struct, frozen=True, kw_only=True):
    """What the answer to one pod depends on besides the pod."""

    namespace: Mapping[str, str] = {}
    """Labels and annotations of its namespace."""
    allowance: Allowance = NO_LIMITS
    traceparent: str = ""
    """Of the trace that this admission belongs to; empty where nobody collects any."""

    @property
    def refuses_own(self) -> bool:
        """Whether own values of guarded variables are refused instead of taken away."""
        return self.namespace.get(OWN_ENVIRONMENT) == "refuse"


def rules_of(
    registry: Registry,
    *,
    schedulers: Iterable[str],
    take_default: bool,
    writers: Iterable[str],
) -> Rules:
    """The rules of a cluster."""
    return Rules(
        registry=registry, admissions=Admissions(registry),
        guarded=guarded_by(registry.vendors.values()),
        opt_outs=[item for d in registry.readers.values() for item in d.opt_out.items()],
        schedulers=frozenset((SCHEDULER, *schedulers)), take_default=take_default,
        writers=frozenset(writers),
    )  # fmt: skip
