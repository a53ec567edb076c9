"""How the API server learns of the webhook: two configurations, written and kept as they must be.

A change by somebody else is undone at the next check, and so is their deletion. They fail closed
for the pods that Tessera places: one that asks for shares is not created while no replica answers.
All others are never held up: match conditions keep them away from the webhook, and where a pod only
gets a warning (another scheduler's that names Tessera's resources) or has cards hidden from it, it
is created even if no replica answers."""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from tessera_core.admission.exempt_pods import LEFT_OUT, ManagedPods
from tessera_core.registry.registry import DialectRegistry
from tessera_runtime.background import running_in_background
from tessera_runtime.errors import BadSettings
from tessera_runtime.kube.api import Kube
from tessera_runtime.kube.create_or_update import (
    Json,
    ObjectLocation,
    create_or_update,
    repeat_until_cancelled,
    retry_until_answered,
)
from tessera_scheduler.webhook import match_conditions as conditions
from tessera_scheduler.webhook.label_selectors import label_selector
from tessera_scheduler.webhook.owner import has_owner, owner_reference, with_owner
from tessera_schema.annotation_keys import SCHEDULER

NAME: Final = "tessera"
_GROUP: Final = "admissionregistration.k8s.io/v1"
_PATIENCE_S: Final = 2
"""Seconds that the API server waits where a pod is created without an answer, too."""


class RegistrationSettings(Struct, frozen=True, kw_only=True):
    """How the API server reaches the webhook, and for what."""

    enabled: bool = True
    """False where somebody else registers it."""
    host: str = ""
    """Host name or address at which the API server reaches this process directly, on the port that
    it listens on; empty = through the Service, as in a cluster."""
    service: str = SCHEDULER
    """Name of the Service, in Tessera's namespace."""
    service_port: Annotated[int, Meta(ge=1, le=65535)] = 443
    """Its port."""
    owner: str = ""
    """ClusterRole that the configurations and the APIService are deleted with; while it is not
    there, none is written. Empty = they stay until somebody deletes them."""
    left_out: tuple[str, ...] = LEFT_OUT
    """Namespaces, besides Tessera's own, whose pods are not reviewed: what the cluster needs to
    start."""
    namespace_selector: str = ""
    """Label selector in JSON (`{"matchLabels": {"team": "research"}}`): of new pods, only those of
    namespaces that match are reviewed. Empty = all. Keys are guarded on every pod all the same."""
    object_selector: str = ""
    """The same, for the labels of the new pods themselves."""
    timeout_s: Annotated[int, Meta(ge=1, le=30)] = 5
    """Seconds that the API server waits: an answer takes milliseconds, the rest is for a replica
    that is just being replaced."""
    refresh_s: Annotated[float, Meta(gt=0)] = 60.0
    """Seconds between two checks of the configurations."""
    retry_s: Annotated[float, Meta(gt=0)] = 1.0
    """Seconds between two attempts of the first check."""

    def check(self) -> None:
        """Raises BadSettings."""
        if "/" in self.host:
            raise BadSettings(
                f"registration.host: {self.host!r}: write a host name or an address, without a "
                "scheme, a port or a path"
            )
        self.selectors()

    def selectors(self) -> tuple[Json, Json]:
        """Of namespaces and of pods. Raises BadSettings."""
        return (
            label_selector(self.namespace_selector, "registration.namespace_selector"),
            label_selector(self.object_selector, "registration.object_selector"),
        )

    def names(self, namespace: str) -> tuple[str, ...]:
        """What the webhook's certificate must be good for."""
        of_service = f"{self.service}.{namespace}"
        reached = (f"{of_service}.svc", of_service, f"{of_service}.svc.cluster.local")
        return tuple(dict.fromkeys((*reached, "localhost", "127.0.0.1", self.host or "localhost")))


class RegistrationInput(Struct, frozen=True, kw_only=True):
    """What the configurations say besides the rules."""

    namespace: str
    """Tessera's own."""
    settings: RegistrationSettings
    writers: frozenset[str]
    """Users and groups that may write result keys."""
    port: int
    """That the webhook listens on; used with `host`."""
    scope: ManagedPods
    """Which pods Tessera places."""
    whole_gangs: bool = False
    """Whether members of gangs are reviewed that ask for no cards."""


def configurations(
    registry: DialectRegistry, terms: RegistrationInput, bundle: bytes
) -> tuple[tuple[ObjectLocation, list[Json]], tuple[ObjectLocation, list[Json]]]:
    """Both configurations' places and webhooks. An empty `bundle` leaves caBundle out."""

    def hook(name: str, path: str, rules: list[Json], conditions: Mapping[str, str]) -> Json:
        return {
            "name": f"{name}.{NAME}.dev",
            "admissionReviewVersions": ["v1"],
            "clientConfig": _client(terms, path, bundle),
            "failurePolicy": "Fail",
            "matchConditions": [{"name": n, "expression": e} for n, e in conditions.items()],
            "matchPolicy": "Equivalent",
            "namespaceSelector": _elsewhere(terms),
            "objectSelector": {},
            "rules": rules,
            "sideEffects": "None",
            "timeoutSeconds": terms.settings.timeout_s,
        }

    def of_new_pods(wanted: Json) -> Json:
        """With the selectors of the settings."""
        namespaces, pods = terms.settings.selectors()
        expressions = [
            *wanted["namespaceSelector"]["matchExpressions"],
            *namespaces.get("matchExpressions", ()),
        ]
        there = {**namespaces, "matchExpressions": expressions}
        return {**wanted, "namespaceSelector": there, "objectSelector": pods}

    def open_hook(name: str, conditions: Mapping[str, str]) -> Json:
        """A webhook for pods that do not wait for its answer."""
        wanted = of_new_pods(hook(name, "/mutate", [_rule("CREATE", "pods")], conditions))
        patience = min(terms.settings.timeout_s, _PATIENCE_S)
        return {**wanted, "failurePolicy": "Ignore", "timeoutSeconds": patience}

    created = [_rule("CREATE", "pods"), _rule("UPDATE", "pods/ephemeralcontainers")]
    places = terms.scope.places
    asks = {"names-tessera": conditions.is_of_us(registry, places)}
    reviewed, plain = asks, conditions.is_plain(registry)
    if terms.whole_gangs:
        member = conditions.is_member(places)
        reviewed = {"names-tessera-or-a-gang": conditions.either(asks["names-tessera"], member)}
        plain = conditions.both(plain, f"!({member})")
    others = conditions.by_others(terms.writers)
    changes = conditions.changes_guarded_keys(registry, terms.scope.schedulers)
    mutating = [
        {
            **of_new_pods(hook("admit", "/mutate", created, reviewed)),
            "reinvocationPolicy": "IfNeeded",
        },
        open_hook("others", {"is-of-others": conditions.is_of_others(registry, places)}),
    ]
    if registry.plain_env:
        mutating.append(open_hook("plain", {"asks-for-nothing": plain}))
    validating = [
        of_new_pods(hook("validate", "/validate", created, asks)),
        hook(
            "keys", "/validate", [_rule("UPDATE", "pods", "pods/status")],
            {"others-change-keys": conditions.both(others, changes)},
        ),
        hook(
            "bindings", "/validate", [_rule("CREATE", "pods/binding", "bindings")],
            {"others-write-keys": conditions.both(others, conditions.has_own_keys())},
        ),
    ]  # fmt: skip
    return (_place("Mutating"), mutating), (_place("Validating"), validating)


@asynccontextmanager
async def open_registration(
    kube: Kube, registry: DialectRegistry, terms: RegistrationInput, bundle: Callable[[], bytes]
) -> AsyncGenerator[None]:
    """The configurations, written now and kept up to date until left; they stay afterwards, for the
    replicas that follow. Raises ApiRefused."""

    async def refresh() -> None:
        owner = await owner_reference(kube, terms.settings.owner)
        for place, webhooks in configurations(registry, terms, bundle()):
            await create_or_update(kube, place, _as_wanted(place, webhooks, owner))

    await retry_until_answered(refresh, terms.settings.retry_s)
    refreshing = repeat_until_cancelled(refresh, terms.settings.refresh_s)
    async with running_in_background(refreshing, "webhook registration"):
        yield


def _as_wanted(
    place: ObjectLocation, webhooks: Sequence[Json], owner: Json | None
) -> Callable[[Json | None], Json | None]:
    def change(there: Json | None) -> Json | None:
        had = {h.get("name"): h for h in (there or {}).get("webhooks") or ()}
        wanted = [_with_bundle(h, had.get(h["name"], {})) for h in webhooks]
        if (
            there is not None
            and is_in(wanted, there.get("webhooks"))
            # What selects less than it should has all that is wanted, and more.
            and _selectors(wanted) == _selectors(there["webhooks"])
            and has_owner(there, owner)
        ):
            return None
        return {**with_owner(there or place.object(), owner), "webhooks": wanted}

    return change


def _selectors(webhooks: Sequence[Json]) -> list[tuple[Any, Any]]:
    return [(h.get("namespaceSelector"), h.get("objectSelector")) for h in webhooks]


def _with_bundle(wanted: Json, had: Mapping[str, Any]) -> Json:
    """The webhook with the caBundle that another program wrote, where it wants none of its own."""
    bundle = (had.get("clientConfig") or {}).get("caBundle")
    client = wanted["clientConfig"]
    if "caBundle" in client or not bundle:
        return wanted
    return {**wanted, "clientConfig": {**client, "caBundle": bundle}}


def is_in(wanted: object, there: object) -> bool:
    """Whether everything that is wanted is there; the API server fills in more."""
    if isinstance(wanted, dict):
        return isinstance(there, dict) and all(is_in(v, there.get(k)) for k, v in wanted.items())
    if isinstance(wanted, list):
        return (
            isinstance(there, list) and len(there) == len(wanted) and all(map(is_in, wanted, there))
        )
    return wanted == there


def _client(terms: RegistrationInput, path: str, bundle: bytes) -> Json:
    settings = terms.settings
    client: Json = {}
    if settings.host:
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        client["url"] = f"https://{host}:{terms.port}{path}"
    else:
        client["service"] = {
            "name": settings.service, "namespace": terms.namespace, "path": path,
            "port": settings.service_port,
        }  # fmt: skip
    if bundle:
        client["caBundle"] = base64.b64encode(bundle).decode()
    return client


def _elsewhere(terms: RegistrationInput) -> Json:
    """All namespaces but Tessera's own and those that the cluster needs to start."""
    left_out = sorted({terms.namespace, *terms.settings.left_out})
    name = "kubernetes.io/metadata.name"
    return {"matchExpressions": [{"key": name, "operator": "NotIn", "values": left_out}]}


def _rule(operation: str, *resources: str) -> Json:
    return {
        "apiGroups": [""], "apiVersions": ["v1"], "operations": [operation],
        "resources": list(resources), "scope": "Namespaced",
    }  # fmt: skip


def _place(kind: str) -> ObjectLocation:
    return ObjectLocation(
        collection=f"/apis/{_GROUP}/{kind.lower()}webhookconfigurations", api_version=_GROUP,
        kind=f"{kind}WebhookConfiguration", name=NAME,
    )  # fmt: skip
