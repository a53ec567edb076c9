"""Where the API server is, who we are there, and how long is too long."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

from msgspec import Meta, Struct

from tessera_runtime.errors import BadSettings
from tessera_runtime.settings import variable
from tessera_schema.annotation_keys import SCHEDULER

ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")

Seconds = Annotated[float, Meta(gt=0)]


class KubeSettings(Struct, frozen=True, kw_only=True):
    """The API server. `url` goes before `kubeconfig`, which goes before the pod's own account."""

    url: str = ""
    """Base URL; empty = as the kubeconfig says, or as Kubernetes says in each pod."""
    token_file: Path | None = None
    """Bearer token for `url`, read again every minute, because Kubernetes replaces it; in a pod the
    account's by default."""
    ca_file: Path | None = None
    """Certificates that the server's is checked with, PEM; in a pod the account's by default."""
    kubeconfig: Annotated[str, variable("KUBECONFIG")] = ""
    """Path of a kubeconfig (several with colons between), with whatever credentials it has: their
    library costs 38 MiB, the other two ways nothing."""
    context: str = ""
    """Context of the kubeconfig; empty = its current one."""
    host: Annotated[str, variable("KUBERNETES_SERVICE_HOST")] = ""
    """Set by Kubernetes in every pod."""
    port: Annotated[int, variable("KUBERNETES_SERVICE_PORT")] = 443
    """Set by Kubernetes in every pod."""
    call_s: Seconds = 5.0
    """Seconds until a call is given up, and for how long afterwards a write may still be done: the
    scheduler's Lease reckons with it. An overloaded API server answers in one or two."""
    qps: Annotated[float, Meta(ge=0)] = 0.0
    """Calls a second in the long run, watches included and calls about Leases not; 0 = as many as
    there are. API Priority and Fairness protects an API server better."""
    burst: Annotated[int, Meta(gt=0)] = 100
    """Calls at once, after a quiet time, where `qps` is set."""
    connections: Annotated[int, Meta(gt=0)] = 64
    """Most connections at once; more calls wait, within their deadline."""
    keep_s: Seconds = 30.0
    """Seconds that an idle connection is kept: less than the 90 s of the API server, so that no
    Binding is sent into a connection that is being closed."""
    page: Annotated[int, Meta(gt=0)] = 500
    """Objects of one answer of a list: 500 pods are 2 to 5 MB."""
    watch_s: Seconds = 300.0
    """Seconds that a watch is asked to last; a random part, up to as much again, is added, so that
    the agents of 5,000 nodes do not come back together."""
    gather_s: Annotated[float, Meta(ge=0)] = 0.0
    """Seconds for which a watch that has just reported something is not read: what comes
    meanwhile is read at once, which costs far less than to be woken by each event."""
    silence_s: Seconds = 90.0
    """Seconds after which a watch that says nothing is taken for dead: an API server sends a
    bookmark every minute."""
    retry_first_s: Seconds = 0.2
    """Seconds until a failed list or watch is tried again, at most; doubled each time."""
    retry_most_s: Seconds = 15.0
    """Most seconds between attempts."""

    def check(self) -> None:
        """Raises BadSettings."""
        if self.url and not self.url.startswith(("http://", "https://")):
            raise BadSettings(f"kube.url: {self.url!r}: write https://<host>:<port>")
        if self.retry_most_s < self.retry_first_s:
            raise BadSettings(
                f"kube.retry_most_s: {self.retry_most_s}: write at least kube.retry_first_s "
                f"({self.retry_first_s})"
            )


class LeaseSettings(Struct, frozen=True, kw_only=True):
    """The Lease of the one writer. All its candidates must agree on these."""

    namespace: str = "tessera-system"
    """Where the Lease is."""
    name: str = SCHEDULER
    """What it is called."""
    duration_s: Annotated[int, Meta(gt=0)] = 15
    """Seconds that a renewal lasts; after a crash nobody writes for this long and a call more."""
    renew_s: Seconds = 3.0
    """Seconds between renewals: several may fail before the Lease is lost."""
    retry_s: Seconds = 1.0
    """Seconds between attempts while renewing fails, and between a candidate's looks."""


class EventSettings(Struct, frozen=True, kw_only=True):
    """How many Kubernetes Events we write."""

    per_second: Seconds = 5.0
    """Writes per second in the long run, of all objects together: a hundredth of what an API server
    carries."""
    burst: Annotated[int, Meta(gt=0)] = 100
    """Writes at once, after a quiet time."""
    waiting: Annotated[int, Meta(gt=0)] = 1000
    """Events that wait to be written; more are dropped."""
    remembered: Annotated[int, Meta(gt=0)] = 4096
    """Events that are counted rather than written once more when they come again."""
    again_s: Seconds = 60.0
    """Seconds until the same event is written again as a higher count."""
