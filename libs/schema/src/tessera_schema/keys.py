"""Names of Tessera's own annotations, labels and kinds."""

from __future__ import annotations

from typing import Final

GROUP: Final = "tessera.dev"
CARDS_PREFIX: Final = "cards.tessera.dev/"
"""`cards.tessera.dev/<vendor>` on a Node: the durable inventory, written by that vendor's agent."""
QUOTA_KIND: Final = "AcceleratorQuota"
SIGNING_KEYS: Final = "tessera-grant-keys"
"""ConfigMap of the public keys that grants are verified with: key id -> base64."""
TRACE_KEY: Final = "tessera.dev/traceparent"
"""On a pod: the trace that its admission opened (W3C traceparent)."""
WAKE_KEY: Final = "tessera.dev/wake"
"""On one node: touched so that kube-scheduler looks at waiting pods again."""
SCHEDULER: Final = "tessera-scheduler"
"""Name of our scheduling profile, of the Lease and of the service."""
