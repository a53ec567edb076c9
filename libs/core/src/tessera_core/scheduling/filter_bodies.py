"""Bodies of kube-scheduler's filter call, and what they lack."""

from __future__ import annotations

from collections.abc import Mapping

from tessera_schema.endpoints.extender import ExtenderArgs, ExtenderFilterResult, encode_result


def problem_of(args: ExtenderArgs) -> str:
    """What the body lacks; empty when it lacks nothing."""
    if args.pod is None:
        return "Pod: missing: send the pod to filter"
    if bytes(args.node_names) == b"null":
        return "NodeNames: missing: set nodeCacheCapable in the extender's configuration"
    return ""


def several(nodes: tuple[str, ...]) -> bytes:
    """The pod may go to these."""
    return encode_result(ExtenderFilterResult(node_names=nodes))


def none(failed: Mapping[str, str]) -> bytes:
    """No node takes the pod: a word for each."""
    return encode_result(
        ExtenderFilterResult(node_names=(), failed_and_unresolvable_nodes=dict(failed))
    )
