"""What an answer depends on besides the request: the cluster's rules, the pod's namespace."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct

from tessera_core.admission.allowances import Allowed, allowed_by
from tessera_core.admission.cache import AdmissionCache
from tessera_core.admission.exempt_pods import ManagedPods, scope_of
from tessera_core.admission.guarded_env import OWN_ENVIRONMENT, GuardedVariables, guarded_by
from tessera_core.gangs.gates import GatedPods
from tessera_core.quota.allowance import NO_LIMITS, Allowance
from tessera_core.registry.registry import DialectRegistry


def always() -> bool:
    """True."""
    return True


class WebhookRules(Struct, frozen=True, kw_only=True):
    """What does not change while the service runs."""

    registry: DialectRegistry
    admissions: AdmissionCache
    guarded: GuardedVariables
    scope: ManagedPods
    """Which pods are Tessera's."""
    writers: frozenset[str]
    """Users and groups that may write result keys on pods that exist."""
    beginnings: Sequence[bytes]
    """With which every resource name and key begins that the webhook reviews."""
    whole_gangs: bool = False
    """Whether gangs start whole, so that nobody has to be warned that they do not."""
    gated: GatedPods = GatedPods.NONE
    """Which new pods get the scheduling gate, where gangs start whole."""
    others_wait: Callable[[], bool] = always
    """Whether gangs or pods wait for room or for their turn now; True where this replica cannot
    know."""

    @property
    def namespace_keys(self) -> frozenset[str]:
        """Labels and annotations of namespaces that mean something, apart from those that allow."""
        return frozenset((OWN_ENVIRONMENT, *(label for label, _ in self.scope.opt_outs)))

    def named_in(self, manifest: bytes) -> bool:
        """Whether the text may name one of Tessera's resources or keys; costs one pass for each of
        a dozen beginnings."""
        return any(beginning in manifest for beginning in self.beginnings)


class Setting(Struct, frozen=True, kw_only=True):
    """What the answer to one pod depends on besides the pod."""

    namespace: Mapping[str, str] = {}
    """Labels and annotations of its namespace."""
    labels: Mapping[str, str] = {}
    """Its labels alone."""
    allowance: Allowance = NO_LIMITS
    traceparent: str = ""
    """Of the trace that this admission belongs to; empty where nobody collects any."""

    @property
    def allowed(self) -> Allowed:
        """The ways around a share's limits that the namespace may have."""
        return allowed_by(self.labels)

    @property
    def refuses_own(self) -> bool:
        """Whether own values of guarded variables are refused instead of taken away."""
        return self.namespace.get(OWN_ENVIRONMENT) == "refuse"


def rules_of(
    registry: DialectRegistry,
    *,
    schedulers: Iterable[str],
    take_default: bool,
    writers: Iterable[str],
    whole_gangs: bool = False,
    gated: GatedPods = GatedPods.NONE,
    others_wait: Callable[[], bool] = always,
) -> WebhookRules:
    """The rules of a cluster."""
    return WebhookRules(
        registry=registry, admissions=AdmissionCache(registry),
        guarded=guarded_by(registry.vendors.values()),
        scope=scope_of(registry, schedulers, take_default=take_default),
        writers=frozenset(writers), beginnings=_beginnings(registry), whole_gangs=whole_gangs,
        gated=gated, others_wait=others_wait,
    )  # fmt: skip


def _beginnings(registry: DialectRegistry) -> tuple[bytes, ...]:
    """Domains, but where all names below one have more in common."""
    by_domain: dict[str, list[str]] = {}
    for name in (*registry.resources, *registry.result_keys, *registry.result_prefixes):
        by_domain.setdefault(name.partition("/")[0], []).append(name)
    return tuple(f'"{_common(names)}'.encode() for names in by_domain.values())


def _common(words: Sequence[str]) -> str:
    first, last = min(words), max(words)
    return next((first[:i] for i, c in enumerate(first) if last[i : i + 1] != c), first)
