"""Which requests the API server sends to the webhook, in CEL: pods that name one of Tessera's
resources or keys, and changes of those keys by others. All other pods of the cluster do not depend
on the webhook.

Keys of Tessera's own group are guarded on every pod. The keys by which other systems record cards
are guarded on the pods that Tessera places: there they repeat the grant for tools that read them.
On all other pods they belong to those systems.

Only macros, operators and the `authorizer` of Kubernetes 1.30 are used.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tessera_core.gangs.group_names import ANNOTATIONS_OF_GANGS, LABELS_OF_GANGS
from tessera_core.registry.registry import DialectRegistry
from tessera_schema.annotation_keys import GROUP, OWNER_KEYS
from tessera_schema.grants import GRANT_KEY
from tessera_schema.resizes import RESIZE_KEY

_NOTES = "metadata.annotations"
_OWN = f"{GROUP}/"


def names_us(registry: DialectRegistry) -> str:
    """True for a pod that asks for cards in any dialect, by a resource or by an annotation, or
    carries a key that only Tessera writes."""
    resources = list_of(registry.resources)
    guarded = _guarded(registry)
    if registry.request_keys:
        guarded = f"k in {list_of(registry.request_keys)} || {guarded}"
    asks = (
        "has(c.resources) && ("
        f"has(c.resources.limits) && c.resources.limits.exists(k, k in {resources})"
        f" || has(c.resources.requests) && c.resources.requests.exists(k, k in {resources}))"
    )
    return (
        f"object.spec.containers.exists(c, {asks})"
        f" || has(object.spec.initContainers) && object.spec.initContainers.exists(c, {asks})"
        f" || has(object.{_NOTES}) && object.{_NOTES}.exists(k, {guarded})"
    )


def is_of_us(registry: DialectRegistry, places: Iterable[str]) -> str:
    """True for a new pod that `names_us`, and that Tessera places or that carries a key of its own
    group. `places` are the scheduler's names of pods that Tessera places."""
    return both(names_us(registry), _may_be_placed(places))


def is_of_others(registry: DialectRegistry, places: Iterable[str]) -> str:
    """True for every other new pod that `names_us`: another scheduler's."""
    return both(names_us(registry), f"!({_may_be_placed(places)})")


def is_plain(registry: DialectRegistry) -> str:
    """True for a new pod that names none of Tessera's resources or keys."""
    return f"!({names_us(registry)})"


def is_member(places: Iterable[str]) -> str:
    """True for a new pod that names a gang and that Tessera may place, with cards or without."""
    labels = "metadata.labels"
    names = (
        f"has(object.{_NOTES}) && object.{_NOTES}.exists(k, k in {list_of(ANNOTATIONS_OF_GANGS)})"
        f" || has(object.{labels}) && object.{labels}.exists(k, k in {list_of(LABELS_OF_GANGS)})"
        " || has(object.spec.schedulingGroup)"
    )
    return both(names, _may_be_placed(places))


def either(first: str, second: str) -> str:
    """True where one of the two is."""
    return f"({first}) || ({second})"


def _may_be_placed(places: Iterable[str]) -> str:
    named = f"!has(object.spec.schedulerName) || object.spec.schedulerName in {list_of(places)}"
    return f"{named} || {has_own_keys()}"


def has_own_keys() -> str:
    """True for an object, such as a Binding, with an annotation of Tessera's own group."""
    return f"has(object.{_NOTES}) && object.{_NOTES}.exists(k, {_own()})"


def has_others_keys(registry: DialectRegistry) -> str:
    """True for an object with an annotation by which other systems record cards."""
    return f"has(object.{_NOTES}) && object.{_NOTES}.exists(k, {_others(registry)})"


def changes_own_keys(but: Iterable[str] = ()) -> str:
    """True for an update that adds, changes or takes away a key of Tessera's own group, `but` for
    these and for those that a pod's owner may write."""
    return _changes(_own(but))


def changes_others_keys(registry: DialectRegistry) -> str:
    """True for an update that adds, changes or takes away a key by which other systems record
    cards."""
    return _changes(_others(registry))


def changes_guarded_keys(registry: DialectRegistry, schedulers: Iterable[str]) -> str:
    """True for an update that the webhook reviews: of Tessera's own keys on any pod, and of other
    systems' keys on a pod that one of these profiles places. A resize is left to the policy
    `tessera-resizes`: only the API server knows who may ask for one."""
    placed = is_placed_by(list_of(schedulers))
    others = both(changes_others_keys(registry), placed)
    return f"{changes_own_keys((RESIZE_KEY,))} || {others}"


def is_placed_by(schedulers: str) -> str:
    """True for an update of a pod that Tessera places, or placed. `schedulers` is a CEL list of the
    profiles that its kube-scheduler serves. Other systems' pods are none of these, so what those
    systems write on them is not Tessera's to guard."""
    granted = f"has(oldObject.{_NOTES}) && {_text(GRANT_KEY)} in oldObject.{_NOTES}"
    named = f"has(object.spec.schedulerName) && object.spec.schedulerName in {schedulers}"
    return f"{granted} || {named}"


def may_resize() -> str:
    """True for an update by a user whose roles let it update `pods/resize` of that pod, which is
    what Kubernetes asks for a resize in place. The API server itself answers."""
    pod = (
        'authorizer.group("").resource("pods").subresource("resize")'
        ".namespace(object.metadata.namespace).name(object.metadata.name)"
    )
    return f'{pod}.check("update").allowed() || {pod}.check("patch").allowed()'


def changes(keys: Iterable[str]) -> str:
    """True for an update that adds, changes or takes away one of these keys."""
    return _changes(f"k in {list_of(keys)}")


def _changes(keys: str) -> str:
    old, new = f"oldObject.{_NOTES}", f"object.{_NOTES}"
    return (
        f"has({new}) && {new}.exists(k, ({keys})"
        f" && !(has({old}) && k in {old} && {old}[k] == {new}[k]))"
        f" || has({old}) && {old}.exists(k, ({keys}) && !(has({new}) && k in {new}))"
    )


def by_others(writers: Iterable[str]) -> str:
    """True for a request of a user that is none of these and in none of these groups."""
    named = list_of(writers)
    return (
        f"!(request.userInfo.username in {named}) && "
        f"!(has(request.userInfo.groups) && request.userInfo.groups.exists(g, g in {named}))"
    )


def both(first: str, second: str) -> str:
    """True where both are. The API server evaluates every condition that it is given, so one that
    is often false, and costs little, spares another only within one expression."""
    return f"({first}) && ({second})"


def _guarded(registry: DialectRegistry) -> str:
    """True for a key `k` that only a scheduler or an agent may write."""
    return f"{_others(registry)} || {_own()}"


def _own(but: Iterable[str] = ()) -> str:
    """True for a key `k` of Tessera's own group that its owner may not write, `but` for these."""
    free = list_of({*OWNER_KEYS, *but})
    return f"k.startsWith({_text(_OWN)}) && !(k in {free})"


def _others(registry: DialectRegistry) -> str:
    """True for a key `k` by which other systems record cards."""
    keys = {key for key in registry.result_keys if not key.startswith(_OWN)}
    begins = [f"k.startsWith({_text(p)})" for p in sorted(registry.result_prefixes) if p != _OWN]
    return " || ".join((f"k in {list_of(keys)}", *begins))


def list_of(words: Iterable[str]) -> str:
    """A list of strings in CEL."""
    return f"[{', '.join(map(_text, sorted(words)))}]"


def _text(word: str) -> str:
    return msgspec.json.encode(word).decode()
