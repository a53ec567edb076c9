"""The cluster itself: the API server's version, what it serves, its clock."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from tessera_core.preflight.findings import (
    Outcome,
    failed,
    ok,
    on_node,
    or_ok,
    unknown,
    warning,
)
from tessera_core.preflight.snapshot import InstallationSnapshot

OLDEST: Final = (1, 30)
"""The policies read the node's name in an agent's token, which is in it from then on."""
NEWEST: Final = (1, 35)
_VERSION: Final = re.compile(r"v?(\d+)\.(\d+)")
CLOCK_WARNS_S: Final = 5.0
"""Half of what certificates and tokens are issued ahead of."""
CLOCK_FAILS_S: Final = 20.0
"""An agent renews its Lease every 20 s, and 45 s count."""


def version_of(text: str) -> tuple[int, int] | None:
    """Major and minor of `v1.34.3+build`; None where there is none."""
    found = _VERSION.match(text)
    return (int(found[1]), int(found[2])) if found else None


def kubernetes_version(cluster: InstallationSnapshot) -> Iterator[Outcome]:
    """The API server's version is one that Tessera is for."""
    text, found = cluster.server_version, version_of(cluster.server_version)
    oldest, newest = (".".join(map(str, v)) for v in (OLDEST, NEWEST))
    if found is None:
        yield unknown(f"the API server's version is {text!r}", "kubectl version")
    elif found < OLDEST:
        yield failed(
            f"the API server is {text}, Tessera needs {oldest} or newer",
            f"upgrade the control plane, version by version, to {oldest} or newer",
        )
    elif found > NEWEST:
        yield warning(
            f"the API server is {text}, Tessera was written for {oldest} to {newest}",
            "read docs/install.md of the newest release of Tessera before you go on",
        )
    else:
        yield ok(f"the API server is {text}")


def policy_api(cluster: InstallationSnapshot) -> Iterator[Outcome]:
    """ValidatingAdmissionPolicies are served."""
    if "policies" in cluster.missing:
        yield failed(
            "the API server does not serve ValidatingAdmissionPolicy (admissionregistration.k8s.io/"
            "v1), without which tenants can write grants",
            "remove admissionregistration.k8s.io/v1=false from --runtime-config of kube-apiserver, "
            "and ValidatingAdmissionPolicy from --disable-admission-plugins",
        )
    else:
        yield ok("ValidatingAdmissionPolicy v1 is served")


def own_clock(cluster: InstallationSnapshot) -> Iterator[Outcome]:
    """The clock of the machine that runs `tessera check` agrees with the API server's."""
    if cluster.clock is None:
        yield unknown("the API server's answer has no date", "timedatectl")
        return
    ahead_s = cluster.clock.own_s - cluster.clock.server_s
    found = f"this machine's clock is {_ahead(ahead_s)} the API server's"
    if abs(ahead_s) > CLOCK_FAILS_S:
        yield failed(found, "timedatectl set-ntp true, here and on the API server's machines")
    elif abs(ahead_s) > CLOCK_WARNS_S:
        yield warning(found, "timedatectl set-ntp true, here and on the API server's machines")
    else:
        yield ok(f"this machine's clock agrees with the API server's within {CLOCK_WARNS_S:g} s")


def _ahead(seconds: float) -> str:
    return f"{abs(seconds):.0f} s {'ahead of' if seconds > 0 else 'behind'}"


def agents_clocks(cluster: InstallationSnapshot) -> Iterator[Outcome]:
    """The clocks of agents' nodes agree with the API server's, by the Leases that agents renew."""
    ahead = _ahead_of_server(cluster)
    if not ahead:
        yield unknown(
            "no agent has renewed a Lease yet", "kubectl -n tessera-agent-leases get leases"
        )
        return
    yield from or_ok(
        (
            _clock_is_off(lease, ahead_s)
            for lease, ahead_s in sorted(ahead.items())
            if abs(ahead_s) > CLOCK_WARNS_S
        ),
        "the clocks of the agents' nodes agree with the API server's",
    )


def _clock_is_off(lease: str, ahead_s: float) -> Outcome:
    node = lease.split(".", 2)[-1]
    found = f"the clock of node {node} is {_ahead(ahead_s)} the API server's (Lease {lease})"
    outcome = failed if abs(ahead_s) > CLOCK_FAILS_S else warning
    return outcome(found, on_node(node, "timedatectl set-ntp true"))


def _ahead_of_server(cluster: InstallationSnapshot) -> dict[str, float]:
    """Lease -> seconds that its agent's clock is ahead. Without the API server's own time of the
    write, only a renewal in the future says anything of a clock."""
    server_s = cluster.clock.server_s if cluster.clock is not None else None
    found = {}
    for lease, renewed_s in cluster.renewed_s.items():
        written_s = cluster.written_s.get(lease)
        if written_s is not None:
            found[lease] = renewed_s - written_s
        elif server_s is not None:
            found[lease] = max(renewed_s - server_s, 0.0)
    return found
