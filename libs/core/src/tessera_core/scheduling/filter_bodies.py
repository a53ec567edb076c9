"""Bodies of kube-scheduler's calls of filter and prioritize, and what they lack."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessera_core.fleet.arrays import Codes
from tessera_schema.endpoints.extender import (
    ExtenderArgs,
    ExtenderFilterResult,
    encode_names,
    encode_refusals,
    encode_result,
    encode_scores,
)
from tessera_schema.reasons import Reason


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


class NodeNames:
    """Names of nodes, for answers about all of them."""

    def __init__(self, names: Sequence[str]) -> None:
        """They are encoded when the first answer is made."""
        self._names = names
        self._encoded: NDArray[Any] | None = None

    def refused(self, codes: Codes) -> bytes:
        """Filter: no node takes the pod, each for the reason of that number."""
        return encode_refusals((Reason(code).wire, names) for code, names in self._by(codes))

    def all_refused(self, reason: Reason) -> bytes:
        """The same, all for one reason."""
        return self.refused(np.full(len(self._names), reason, np.uint8))

    def scored(self, scores: Codes) -> bytes:
        """Prioritize: each node has that score."""
        return encode_scores(self._by(scores))

    def _by(self, values: Codes) -> Iterator[tuple[int, list[bytes]]]:
        if self._encoded is None:
            self._encoded = np.array(encode_names(self._names), object)
        for value in np.flatnonzero(np.bincount(values)).tolist():
            yield value, self._encoded[values == value].tolist()
