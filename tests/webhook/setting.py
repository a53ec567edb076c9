"""Reviews as the API server sends them, and pods as it would store them afterwards."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tessera_core.registry.registry import load
from tessera_embedded.apiserver.verbs.patches import apply, operations
from tessera_scheduler.webhook.review import mutate, validate
from tessera_scheduler.webhook.rules import Setting, WebhookRules, rules_of
from tessera_schema.endpoints.admission_review import API_VERSION, KIND, ReviewAnswer, decode_review

Json = dict[str, Any]

REGISTRY = load()
WRITERS = "system:serviceaccounts:tessera-system"
PROFILES = {name for d in REGISTRY.dialects.values() for name in d.schedulers}
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
NO_TRACE = Setting()


def the_rules(**changes: Any) -> WebhookRules:
    """The rules of a cluster with every dialect and profile."""
    terms: Json = {"schedulers": PROFILES, "take_default": True, "writers": [WRITERS], **changes}
    return rules_of(REGISTRY, **terms)


def rules_with(options: Mapping[str, Mapping[str, Any]]) -> WebhookRules:
    """The rules of a cluster with dialects configured like this."""
    return rules_of(load(options), schedulers=PROFILES, take_default=True, writers=[WRITERS])


RULES = the_rules()


def a_manifest(
    limits: Mapping[str, str] | None = None,
    *,
    notes: Mapping[str, str] | None = None,
    container: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Json:
    """A pod of one container as the API server shows it to webhooks."""
    amounts = {"nvidia.com/gpu": "1"} if limits is None else dict(limits)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "p", "namespace": "team", **({"annotations": dict(notes)} if notes else {}),
        },
        "spec": {
            "containers": [
                {
                    "name": "c", "image": "i", **(container or {}),
                    "resources": {"limits": amounts, "requests": dict(amounts)},
                }
            ],
            "schedulerName": "default-scheduler",
            **spec,
        },
    }  # fmt: skip


def a_review(
    pod: Json | None, *, old: Json | None = None, operation: str = "CREATE", sub: str = "",
    user: str = "jane", groups: Sequence[str] = (), kind: str = "Pod",
) -> Json:  # fmt: skip
    """A review of the pod."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "request": {
            "uid": "r-1", "kind": {"group": "", "version": "v1", "kind": kind},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "subResource": sub, "name": "p", "namespace": "team", "operation": operation,
            "userInfo": {"username": user, "groups": list(groups)},
            "object": pod, "oldObject": old, "dryRun": False,
        },
    }  # fmt: skip


def mutated(
    pod: Json, setting: Setting = NO_TRACE, rules: WebhookRules = RULES, **review: Any
) -> ReviewAnswer:
    """The mutating answer to a pod."""
    request = decode_review(msgspec.json.encode(a_review(pod, **review)))
    return mutate(rules, request, setting)


def validated(
    pod: Json, setting: Setting = NO_TRACE, rules: WebhookRules = RULES, **review: Any
) -> ReviewAnswer:
    """The validating answer to a pod."""
    request = decode_review(msgspec.json.encode(a_review(pod, **review)))
    return validate(rules, request, setting)


def patch_of(answer: ReviewAnswer) -> list[Json]:
    """The steps of an answer's patch."""
    assert answer.allowed, answer.status
    if not answer.patch:
        return []
    decoded: list[Json] = msgspec.json.decode(base64.b64decode(answer.patch))
    return decoded


def patched(pod: Json, answer: ReviewAnswer) -> Json:
    """The pod with the answer's patch applied as the API server does it."""
    if not answer.patch:
        return pod
    done: Json = apply(pod, operations(base64.b64decode(answer.patch)))
    return done


def admitted(pod: Json, setting: Setting = NO_TRACE, rules: WebhookRules = RULES) -> Json:
    """The pod after the mutating phase."""
    answer = mutated(pod, setting, rules)
    assert answer.allowed, answer.status
    return patched(pod, answer)


def why_not(answer: ReviewAnswer) -> tuple[int, str]:
    """Status and message of a refusal."""
    assert not answer.allowed
    assert answer.status is not None
    return answer.status.code, answer.status.message
