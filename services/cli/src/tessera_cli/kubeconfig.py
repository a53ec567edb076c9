"""The cluster, user and namespace of a command: as kubectl chooses them.

A kubeconfig is the one that is named, else those of KUBECONFIG, else `~/.kube/config`; where there
is none, a pod has its own account. The namespace is the one that is named, else the context's (or
the pod's own), else `default`. Nothing that needs a cluster is imported here:
`tessera_cli.api_objects` opens it.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct


class ClusterTarget(Struct, frozen=True, kw_only=True):
    """What the arguments and the environment say."""

    kubeconfig: str = ""
    """Path; several with colons between. Empty = the pod's own account."""
    context: str = ""
    """Empty = the current one."""
    namespace: str = ""
    """Empty = the context's."""
    everywhere: bool = False
    """All namespaces are meant."""
    user: str = ""
    """The user to act as, where that is another one."""
    host: str = ""
    """Of the API server, as Kubernetes says in each pod."""
    port: int = 443


def add_arguments(
    command: argparse.ArgumentParser, environ: Mapping[str, str], *, namespaced: bool = True
) -> None:
    """The options that kubectl has for it; `target` reads them."""
    if namespaced:
        command.add_argument(
            "-n", "--namespace", default="", metavar="NAMESPACE",
            help="namespace, instead of the context's",
        )  # fmt: skip
        command.add_argument(
            "-A", "--all-namespaces", action="store_true", dest="everywhere",
            help="all namespaces",
        )  # fmt: skip
    command.add_argument(
        "--kubeconfig", default="", metavar="FILE",
        help="file, instead of $KUBECONFIG and ~/.kube/config",
    )  # fmt: skip
    command.add_argument("--context", default="", help="context, instead of the current one")
    command.add_argument(
        "--as",
        default="",
        metavar="USER",
        dest="user",
        help="act as this user, if you have the right to",
    )
    command.set_defaults(environ=environ)


def target(options: argparse.Namespace) -> ClusterTarget:
    """What the options and the environment say."""
    environ: Mapping[str, str] = options.environ
    named = options.kubeconfig or environ.get("KUBECONFIG", "")
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT")
    return ClusterTarget(
        kubeconfig=named or _at_home(environ), context=options.context, user=options.user,
        namespace=getattr(options, "namespace", ""),
        everywhere=getattr(options, "everywhere", False),
        host=host, port=int(port) if port and port.isdigit() else 443,
    )  # fmt: skip


def _at_home(environ: Mapping[str, str]) -> str:
    home = environ.get("HOME", "")
    file = Path(home) / ".kube" / "config"
    return str(file) if home and file.is_file() else ""
