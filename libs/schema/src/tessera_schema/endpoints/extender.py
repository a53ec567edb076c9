"""Bodies of kube-scheduler's extender protocol (k8s.io/kube-scheduler/extender/v1).

Field names on the wire are Go's, capitalised. With nodeCacheCapable only names travel.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from tessera_schema.json_codec import decoder
from tessera_schema.kube import Pod

MOST_NODES: Final = 1 << 16
"""Names in one request: more nodes than the largest clusters have."""
MOST_VICTIMS: Final = 1_024
"""Pods that would be evicted from one node: kubelet runs a few hundred at most."""


class ExtenderArgs(Struct, frozen=True, rename="pascal"):
    """Body of `/filter`. Node names stay raw: the same 5,000 come with every pod, and comparing
    bytes is cheaper than decoding them."""

    pod: Pod | None = None
    node_names: msgspec.Raw = msgspec.Raw(b"null")
    nodes: msgspec.Raw = msgspec.Raw(b"null")
    """Whole nodes, which only an autoscaler's simulation sends."""


class ExtenderFilterResult(Struct, frozen=True, rename="pascal"):
    """Answer of `/filter`. Nodes that are in none of the lists are left out without a reason."""

    node_names: tuple[str, ...] | None = None
    failed_nodes: dict[str, str] = {}
    """Nodes that evicting pods may help. Not written by Tessera."""
    error: str = ""
    failed_and_unresolvable_nodes: dict[str, str] = {}
    """Nodes on which kube-scheduler looks for no victims."""


class NodeList(Struct, frozen=True):
    """Nodes as they were sent."""

    items: Annotated[tuple[msgspec.Raw, ...], Meta(max_length=MOST_NODES)] = ()


class ExtenderSimulationResult(Struct, frozen=True, rename="pascal"):
    """Answer of `/filter` to a call that sends whole nodes."""

    nodes: NodeList | None = None
    """Those with room; None = there are none."""
    failed_nodes: dict[str, str] = {}
    error: str = ""


class ExtenderBindingArgs(Struct, frozen=True, rename="pascal"):
    """Body of `/bind`."""

    pod_name: str = ""
    pod_namespace: str = ""
    pod_uid: str = msgspec.field(name="PodUID", default="")
    node: str = ""


class ExtenderBindingResult(Struct, frozen=True, rename="pascal"):
    """Answer of `/bind`; an empty error is success."""

    error: str = ""


class HostPriority(Struct, frozen=True, rename="pascal"):
    """One node's score in the answer of `/prioritize`, 0 to 10."""

    host: str
    score: int


class MetaPod(Struct, frozen=True, rename="pascal"):
    """A pod by its uid."""

    uid: str = msgspec.field(name="UID", default="")


class MetaVictims(Struct, frozen=True, rename="pascal"):
    """The pods that would be evicted from one node."""

    pods: Annotated[tuple[MetaPod, ...], Meta(max_length=MOST_VICTIMS)] | None = None
    num_pdb_violations: int = msgspec.field(name="NumPDBViolations", default=0)


class ExtenderPreemptionArgs(Struct, frozen=True, rename="pascal"):
    """Body of `/preempt`."""

    pod: Pod | None = None
    node_name_to_meta_victims: (
        Annotated[dict[str, MetaVictims], Meta(max_length=MOST_NODES)] | None
    ) = None


class ExtenderPreemptionResult(Struct, frozen=True, rename="pascal"):
    """Answer of `/preempt`: the nodes where evicting would help."""

    node_name_to_meta_victims: dict[str, MetaVictims]


_decode_args = decoder(ExtenderArgs)
_decode_binding = decoder(ExtenderBindingArgs)
_decode_preemption = decoder(ExtenderPreemptionArgs)
_decode_names = msgspec.json.Decoder(
    Annotated[tuple[str, ...], Meta(max_length=MOST_NODES)] | None
).decode
_decode_name_set = msgspec.json.Decoder(
    Annotated[frozenset[str], Meta(max_length=MOST_NODES)] | None
).decode
_decode_nodes = msgspec.json.Decoder(NodeList | None).decode
_encode = msgspec.json.Encoder().encode
_REFUSED: Final = _encode(ExtenderFilterResult(node_names=())).removesuffix(b"{}}")


def decode_args(body: bytes) -> ExtenderArgs:
    """Raises msgspec.DecodeError."""
    return _decode_args(body)


def pod_bytes(body: bytes, args: ExtenderArgs) -> int:
    """How much of a body of `/filter` is its pod, about."""
    return len(body) - len(bytes(args.node_names)) - len(bytes(args.nodes))


def decode_names(raw: msgspec.Raw) -> tuple[str, ...]:
    """Raises msgspec.DecodeError."""
    return _decode_names(raw) or ()


def decode_name_set(raw: msgspec.Raw) -> frozenset[str]:
    """The same, without their order. Raises msgspec.DecodeError."""
    return _decode_name_set(raw) or frozenset()


def decode_nodes(raw: msgspec.Raw) -> tuple[msgspec.Raw, ...]:
    """Raises msgspec.DecodeError."""
    found = _decode_nodes(raw)
    return found.items if found is not None else ()


def decode_binding_args(body: bytes) -> ExtenderBindingArgs:
    """Raises msgspec.DecodeError."""
    return _decode_binding(body)


def decode_preemption_args(body: bytes) -> ExtenderPreemptionArgs:
    """Raises msgspec.DecodeError."""
    return _decode_preemption(body)


def encode_names(names: Iterable[str]) -> list[bytes]:
    """Each name as JSON, for answers that repeat it."""
    return list(map(_encode, names))


def encode_refusals(failed: Iterable[tuple[str, Sequence[bytes]]]) -> bytes:
    """The body of `ExtenderFilterResult(node_names=(), failed_and_unresolvable_nodes=...)`, whose
    nodes come by their word: each word with names as `encode_names` gives them. Thousands of nodes
    share a few words, so nothing is made of each."""
    return b"%b{%b}}" % (_REFUSED, b",".join(_with_value(*each) for each in failed))


def encode_scores(scored: Iterable[tuple[int, Sequence[bytes]]]) -> bytes:
    """The body of a list of `HostPriority`: each score with its names, likewise."""
    return b"[%b]" % b",".join(_with_score(*each) for each in scored)


def _with_value(word: str, names: Sequence[bytes]) -> bytes:
    value = b":" + _encode(word)
    return (value + b",").join(names) + value


def _with_score(score: int, names: Sequence[bytes]) -> bytes:
    end = b',"Score":%d}' % score
    return b'{"Host":' + (end + b',{"Host":').join(names) + end


def encode_result(
    result: ExtenderFilterResult
    | ExtenderSimulationResult
    | ExtenderBindingResult
    | ExtenderPreemptionResult,
) -> bytes:
    """The answer's body."""
    return _encode(result)
