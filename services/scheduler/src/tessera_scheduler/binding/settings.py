"""Settings of bind calls."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

Seconds = Annotated[float, Meta(gt=0)]


class BindSettings(Struct, frozen=True, kw_only=True):
    """How Bindings are sent, and when one that was lost is given up."""

    whole_s: Seconds = 8.0
    """Seconds within which a bind call starts its last attempt: kube-scheduler gives the call up
    after the `httpTimeout` of the extender's configuration, for which 30 s are recommended."""
    tries: Annotated[int, Meta(gt=0)] = 5
    """Attempts of one bind call, after conflicts and while the API server is busy."""
    late_s: Seconds = 75.0
    """Seconds after which a Binding that was lost cannot be written any more: the API server ends
    a request after 60 s (`--request-timeout`), its store needs a few more."""
    labels: bool = False
    """Write the labels of HAMi's pods (`hami.io/vgpu-node`) with a patch of their own after the
    Binding. Kubernetes 1.35 and later copy the labels of the Binding, earlier releases drop them.
    Off, because it is one more write for each such pod, for tools that few clusters have."""
