"""Which nodes a pod's own words allow: nodeSelector, required node affinity, taints, cordon.

Source: kube-scheduler's NodeUnschedulable, TaintToleration and NodeAffinity filters (Kubernetes
1.34). Preferences are left to kube-scheduler: they order nodes and refuse none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
from msgspec import Struct

from tessera_schema.kube import Node, PodSpec, Taint, Toleration
from tessera_schema.reasons import Reason

UNSCHEDULABLE: Final = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
_REPELS: Final = ("NoSchedule", "NoExecute")
_AFFINITY: Final = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"

Refusal = tuple[Reason, str]


class Expression(Struct, frozen=True, forbid_unknown_fields=True):
    """One requirement on a label, or on `metadata.name` in matchFields."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def __str__(self) -> str:
        """As messages print it, such as `zone In (a, b)`."""
        return f"{self.key} {self.operator} ({', '.join(self.values)})".removesuffix(" ()")


class Term(Struct, frozen=True, rename="camel"):
    """All expressions of a term must hold; a term without any matches no node."""

    match_expressions: tuple[Expression, ...] = ()
    match_fields: tuple[Expression, ...] = ()


class _Terms(Struct, frozen=True, rename="camel"):
    node_selector_terms: tuple[Term, ...] = ()


class _NodeAffinity(Struct, frozen=True, rename="camel"):
    required: _Terms | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )


class _Affinity(Struct, frozen=True, rename="camel"):
    node_affinity: _NodeAffinity | None = None


class NodeAffinity:
    """What one pod's spec says about nodes, read once and asked of many nodes."""

    def __init__(self, spec: PodSpec) -> None:
        """Reads the spec; `problem` is set when its affinity can match no node as written."""
        self.selector = spec.node_selector
        """Labels that a node has to have."""
        self._tolerations = spec.tolerations
        self._terms: tuple[Term, ...] | None = None
        self.problem = ""
        try:
            affinity = msgspec.convert(spec.affinity or {}, _Affinity)
        except msgspec.ValidationError as e:
            self.problem = f"spec.affinity: {e}: write it as Kubernetes' NodeAffinity"
            return
        if affinity.node_affinity is not None and affinity.node_affinity.required is not None:
            self._terms = affinity.node_affinity.required.node_selector_terms
            self.problem = _malformed(self._terms)

    @property
    def any_label(self) -> bool:
        """True when labels do not matter: only taints and cordons can refuse a node."""
        return not self.selector and self.selector_only

    @property
    def selector_only(self) -> bool:
        """True when no label matters but those of `selector`."""
        return self._terms is None

    def refusal(self, node: Node) -> Refusal | None:
        """Why the node is out; None when it is not."""
        return (
            self._unschedulable(node) or self._tainted(node.spec.taints) or self._unselected(node)
        )

    def _unschedulable(self, node: Node) -> Refusal | None:
        if node.spec.unschedulable and not self._tolerates(UNSCHEDULABLE):
            return Reason.NODE_UNSCHEDULABLE, "the node is cordoned (spec.unschedulable)"
        return None

    def _tainted(self, taints: Iterable[Taint]) -> Refusal | None:
        for taint in taints:
            if taint.effect in _REPELS and not self._tolerates(taint):
                value = f"={taint.value}" if taint.value else ""
                text = f"taint {taint.key}{value}:{taint.effect} is not tolerated"
                return Reason.NODE_TAINTED, text
        return None

    def _tolerates(self, taint: Taint) -> bool:
        return any(_tolerates(toleration, taint) for toleration in self._tolerations)

    def _unselected(self, node: Node) -> Refusal | None:
        labels = node.metadata.labels
        for key, value in self.selector.items():
            if labels.get(key) != value:
                text = f"spec.nodeSelector asks {key}={value}, the node {_has(labels, key)}"
                return Reason.NODE_NOT_SELECTED, text
        if self._terms is None or any(_holds(term, node) for term in self._terms):
            return None
        failed = next((e for t in self._terms for e, fits in _each(t, node) if not fits), None)
        text = f"required node affinity: none of {len(self._terms)} terms holds"
        if failed is not None:
            text += f": {failed}, the node {_has(labels, failed.key)}"
        return Reason.NODE_NOT_SELECTED, text


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    return toleration.operator == "Exists"


def _has(labels: Mapping[str, str], key: str) -> str:
    return f"has {key}={labels[key]}" if key in labels else f"has no {key}"


def _holds(term: Term, node: Node) -> bool:
    found = list(_each(term, node))
    return bool(found) and all(fits for _, fits in found)


def _each(term: Term, node: Node) -> Iterable[tuple[Expression, bool]]:
    for expression in term.match_fields:
        yield expression, _matches(expression, {"metadata.name": node.name})
    for expression in term.match_expressions:
        yield expression, _matches(expression, node.metadata.labels)


def _matches(expression: Expression, labels: Mapping[str, str]) -> bool:
    value = labels.get(expression.key)
    match expression.operator:
        case "In" | "NotIn" as operator:
            return (value in expression.values) == (operator == "In")
        case "Exists" | "DoesNotExist" as operator:
            return (value is not None) == (operator == "Exists")
        case "Gt" | "Lt" as operator:
            number, bound = _integer(value), _integer(expression.values[0])
            if number is None or bound is None:
                return False
            return number > bound if operator == "Gt" else number < bound
        case _:
            return False


def _integer(text: str | None) -> int | None:
    try:
        return None if text is None or len(text) > 20 else int(text)
    except ValueError:
        return None


def _malformed(terms: Iterable[Term]) -> str:
    for term in terms:
        for e in (*term.match_expressions, *term.match_fields):
            wrong = _wrong(e)
            if wrong:
                return f"{_AFFINITY}: {e}: {wrong}"
        for e in term.match_fields:
            if e.key != "metadata.name" or e.operator not in ("In", "NotIn"):
                return f"{_AFFINITY}: {e}: matchFields knows only metadata.name In and NotIn"
    return ""


def _wrong(e: Expression) -> str:
    match e.operator:
        case "In" | "NotIn":
            return "" if e.values else f"{e.operator} needs values"
        case "Exists" | "DoesNotExist":
            return f"{e.operator} takes no values" if e.values else ""
        case "Gt" | "Lt":
            whole = len(e.values) == 1 and _integer(e.values[0]) is not None
            return "" if whole else f"{e.operator} needs one whole number"
        case _:
            return "write In, NotIn, Exists, DoesNotExist, Gt or Lt"
