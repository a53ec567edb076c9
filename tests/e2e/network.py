"""A network namespace of the tests' own: whatever listens, is routed or translated here is gone
with it.

The node has an address that pods can reach, pods hang on a bridge, and services get addresses from
kube-proxy. `make e2e` makes the namespace, because a process cannot take its threads along.
"""

from __future__ import annotations

import json
import socket
import subprocess
from pathlib import Path

NODE_IP = "10.99.0.1"
SERVICES = "10.96.0.0/16"
API_SERVICE = "10.96.0.1"
PODS = "10.77.0.0/22"
LINKS = {"node", "pods"}
PLUGINS = Path("/usr/lib/cni")
NEEDED = {"ip": "iproute2", "iptables": "iptables"}
"""Program -> Debian's package."""

NETWORK = json.dumps({
    "cniVersion": "1.0.0", "name": "pods", "plugins": [{
        "type": "bridge", "bridge": "pods", "isGateway": True, "hairpinMode": True,
        "ipam": {"type": "host-local", "ranges": [[{"subnet": PODS}]],
                 "routes": [{"dst": "0.0.0.0/0"}]},
    }],
})  # fmt: skip


def is_private() -> bool:
    """Whether this process has a network of its own: loopback, and what we made."""
    return {name for _, name in socket.if_nameindex()} <= {"lo", *LINKS}


def set_up() -> None:
    """Give the node its address, and let packets through; what a cluster before this one left here
    goes first."""
    for link in LINKS & {name for _, name in socket.if_nameindex()}:
        subprocess.run(["ip", "link", "delete", link], check=True)
    for table in ("filter", "nat", "mangle"):
        for change in ("--flush", "--delete-chain"):
            subprocess.run(["iptables", "--table", table, change], check=True)
    for words in (
        "link set lo up", "link add node type bridge", f"addr add {NODE_IP}/24 dev node",
        "link set node up", f"route add default via {NODE_IP}",
    ):  # fmt: skip
        subprocess.run(["ip", *words.split()], check=True)
    for name in ("ip_forward", "conf/all/route_localnet"):
        Path("/proc/sys/net/ipv4", name).write_text("1")
