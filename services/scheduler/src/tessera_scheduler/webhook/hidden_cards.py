"""Pods that ask for nothing, where a dialect's option has cards hidden from them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tessera_core.admission.exempt_pods import opted_out
from tessera_core.admission.foreign_resources import foreign_resource
from tessera_core.admission.isolation import containers_of
from tessera_core.kube.json_patch import Where
from tessera_scheduler.webhook.rules import Setting, WebhookRules
from tessera_schema.kube import Container, Pod


def hidden(
    rules: WebhookRules, pod: Pod, setting: Setting
) -> tuple[tuple[Where, Mapping[str, str]], ...]:
    """The containers that are to see no card, and the variables by which they see none.

    Left alone are pods that opt out or claim devices, privileged containers (the node's own
    software: nothing would be hidden from them), and those that ask for accelerators elsewhere.
    """
    variables = rules.registry.plain_env
    if not variables or pod.spec.resource_claims or opted_out(rules.scope, pod, setting.namespace):
        return ()
    return tuple((where, variables) for where in _plain(rules, pod))


def _plain(rules: WebhookRules, pod: Pod) -> Iterator[Where]:
    for kind, position, container in containers_of(pod, ("initContainers", "containers")):
        context = container.security_context
        privileged = context is not None and context.privileged
        if not privileged and not _requests_foreign_cards(rules, container):
            yield "spec", kind, position


def _requests_foreign_cards(rules: WebhookRules, container: Container) -> bool:
    names = container.resources.limits.keys() | container.resources.requests.keys()
    return any(foreign_resource(rules.registry, name) for name in names)
