"""Names of Tessera's own annotations, labels and kinds."""

from __future__ import annotations

from typing import Final

GROUP: Final = "tessera.dev"
CARDS_PREFIX: Final = "cards.tessera.dev/"
"""`cards.tessera.dev/<vendor>` on a Node: the durable inventory, written by that vendor's agent."""
CARDS_LABEL: Final = f"{GROUP}/cards"
"""Label of a node whose cards of the vendor that it names our agent publishes."""
QUOTA_KIND: Final = "AcceleratorQuota"
NODE_SETTINGS: Final = "tessera-node-settings"
"""Name of the ConfigMap with settings of cards, node by node."""
SIGNING_KEYS: Final = "tessera-grant-keys"
"""ConfigMap of the public keys that grants are verified with: key id -> base64."""
TRACE_KEY: Final = "tessera.dev/traceparent"
"""On a pod: the trace that its admission opened (W3C traceparent)."""
TERM_KEY: Final = "tessera.dev/term"
"""Next to a grant: `leaseTransitions` of the scheduler's Lease when it was written. The API server
refuses one that is not the Lease's (`tessera_core.trust.fencing`)."""
WAKE_KEY: Final = "tessera.dev/wake"
"""On one node: touched so that kube-scheduler looks at waiting pods again."""
SCHEDULER: Final = "tessera-scheduler"
"""Name of our scheduling profile, of the Lease and of the service."""
RESERVE_KEY: Final = "tessera.dev/reserve"
"""On a waiting pod: the node on which a plan makes room for it (`tessera_schema.plans`)."""
REBALANCE_KEY: Final = "tessera.dev/rebalance"
"""On a pod, by its owner: "false" = it is never moved or resized, "true" = it may be moved although
it has no controller or keeps files on its node."""
CHECKPOINT_KEY: Final = "tessera.dev/checkpoint-every"
"""On a pod, by its owner: seconds between two of its checkpoints; without it all work since its
start counts as lost when it moves."""
CHECKPOINTED_KEY: Final = "tessera.dev/checkpointed-at"
"""On a pod, by its owner: when its last checkpoint was written (RFC 3339); what it did before is
not lost when it is evicted."""
EXPECTED_KEY: Final = "tessera.dev/expected-seconds"
"""On a pod, by its owner: seconds after its start at which it is expected to end."""
PREEMPTIBLE_KEY: Final = "tessera.dev/preemptible"
"""On a pod, by its owner: "false" = no pod is given its cards by evicting it, "surplus" = of its
gang only members beyond the minimum go, "true" = it may go although it has no controller."""
LEAST_MEMORY_KEY: Final = "tessera.dev/least-memory"
"""On a pod, by its owner: no share of it is made smaller than this, a Kubernetes quantity."""
LENDING_KEY: Final = "tessera.dev/lending"
"""On a pod, by its owner: "false" = nothing is lent to it, or of it."""
ACROSS_NAMESPACES_LABEL: Final = "lending.tessera.dev/across-namespaces"
"""On a namespace, by an administrator: "true" = what its containers say of themselves (a priority,
that they give their limit of cores up) counts on cards that other namespaces share."""
ORDER_KEY: Final = "tessera.dev/order"
"""On a pod, by its owner: one of `ORDERS`, by what its node and its cards are chosen."""
ORDERS: Final = ("pack", "dialect")
"""`pack`, or the order of the dialect that the pod speaks, whatever is the default."""
CLASS_KEY: Final = "tessera.dev/class"
"""On a pod, by its owner: one of `CLASSES`."""
GUARANTEED: Final = "guaranteed"
BURSTABLE: Final = "burstable"
BEST_EFFORT: Final = "best-effort"
CLASSES: Final = (GUARANTEED, BURSTABLE, BEST_EFFORT)
"""`guaranteed`: all memory of its shares lies on the card, also where more of a card can be granted
than it has; `burstable`, or none: a part of it may lie in the host's memory there; `best-effort`:
like that, and it is granted no cores: it has the card's time that others leave."""
OWNER_KEYS: Final = frozenset({
    REBALANCE_KEY, CHECKPOINT_KEY, CHECKPOINTED_KEY, EXPECTED_KEY, PREEMPTIBLE_KEY,
    LEAST_MEMORY_KEY, LENDING_KEY, ORDER_KEY, CLASS_KEY,
})  # fmt: skip
"""Keys of our group that a pod's owner may write: wishes, which give nothing."""
