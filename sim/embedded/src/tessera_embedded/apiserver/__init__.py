"""A Kubernetes API server in small: true in what Tessera leans on, absent in the rest.

`Store` is the server without a network, for tests on virtual time; `open_apiserver` puts it behind
TLS, tokens and webhooks. Not promised: all of core/v1, server-side apply, quotas that are enforced,
garbage collection, managedFields, protobuf.

A request comes in by `http`, `routes` makes a call of a verb of it, and `store` carries that out:

- `objects`: what is kept
- `kinds`: what is particular to pods, nodes, webhooks and others
- `verbs`: what may be done to objects
- `admission`: what a write must pass
- `answers`: answers about the server itself, and to what is asked and not kept
"""

from tessera_embedded.apiserver.access import Access, Account, Rule
from tessera_embedded.apiserver.admission.requests import ApiServerEnvironment
from tessera_embedded.apiserver.errors import ApiError
from tessera_embedded.apiserver.faults import Answer, Cut, Delay, Faults, Hang, InjectedFault
from tessera_embedded.apiserver.http_types import ADMIN, AuthenticatedUser, HttpCall, Response
from tessera_embedded.apiserver.server import ApiServer, open_apiserver
from tessera_embedded.apiserver.settings import ApiServerSettings
from tessera_embedded.apiserver.store import Store
from tessera_embedded.apiserver.watches import KindWatch

__all__ = [
    "ADMIN",
    "Access",
    "Account",
    "Answer",
    "ApiError",
    "ApiServer",
    "ApiServerEnvironment",
    "ApiServerSettings",
    "AuthenticatedUser",
    "Cut",
    "Delay",
    "Faults",
    "Hang",
    "HttpCall",
    "InjectedFault",
    "KindWatch",
    "Response",
    "Rule",
    "Store",
    "open_apiserver",
]
