"""Which kinds of object there are, and what is particular to each as a kind.

Not promised: all of core/v1. These are the kinds that Tessera reads or writes, plus what
CustomResourceDefinitions add while the server runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec import Struct

ADMISSION: Final = "admissionregistration.k8s.io"
REGISTRATION: Final = "apiregistration.k8s.io"
EXTENSIONS: Final = "apiextensions.k8s.io"
EVENTS: Final = "events.k8s.io"

Shelf = tuple[str, str]
"""(group, plural): where objects are kept, whatever version they are asked for in."""


class Resource(Struct, frozen=True):
    """One kind of object in one version."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    short: tuple[str, ...] = ()
    status: bool = False
    """There is a status subresource: the main verbs leave `status` alone."""
    subresources: tuple[str, ...] = ()
    """Further ones (binding, eviction)."""
    generation: bool = False
    """metadata.generation counts changes of the spec."""
    unconditional: bool = True
    """PUT without resourceVersion is taken."""
    create_on_update: bool = False
    """PUT on a missing object creates it."""
    returns_deleted: bool = False
    """DELETE answers with the object, not with a Status."""
    stored_as: Shelf | None = None
    """Kept as another kind (events of two groups are the same objects)."""
    renames: tuple[tuple[str, str], ...] = ()
    """(name here, name as stored) of top-level fields."""
    schema: Mapping[str, Any] | None = None
    """openAPIV3Schema of a custom resource."""
    custom: bool = False

    @property
    def api_version(self) -> str:
        """`v1` or `group/version`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def shelf(self) -> Shelf:
        """Where its objects are kept."""
        return self.stored_as or (self.group, self.plural)

    @property
    def prefix(self) -> bytes:
        """The start of every encoded object: its kind and version."""
        return b'{"kind":"%s","apiVersion":"%s",' % (self.kind.encode(), self.api_version.encode())

    @property
    def list_path(self) -> str:
        """`/api/v1` or `/apis/group/version`."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"


_EVENT_RENAMES: Final = (
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
)


def _cluster(group: str, plural: str, kind: str, **more: Any) -> Resource:
    return Resource(group, "v1", plural, kind, namespaced=False, **more)


BUILT_IN: Final = (
    Resource(
        "", "v1", "pods", "Pod", short=("po",), status=True, generation=True,
        subresources=("binding", "eviction"), returns_deleted=True,
    ),
    _cluster("", "nodes", "Node", short=("no",), status=True),
    _cluster(
        "", "namespaces", "Namespace", short=("ns",), status=True
    ),
    Resource("", "v1", "configmaps", "ConfigMap", short=("cm",)),
    Resource("", "v1", "secrets", "Secret"),
    Resource("", "v1", "services", "Service", short=("svc",), status=True, returns_deleted=True),
    Resource("", "v1", "events", "Event", short=("ev",), create_on_update=True),
    Resource(
        "", "v1", "resourcequotas", "ResourceQuota", short=("quota",), status=True,
        returns_deleted=True,
    ),
    Resource(
        "", "v1", "serviceaccounts", "ServiceAccount", short=("sa",), returns_deleted=True,
        subresources=("token",),
    ),
    Resource(
        EVENTS, "v1", "events", "Event", short=("ev",), create_on_update=True,
        stored_as=("", "events"), renames=_EVENT_RENAMES,
    ),
    Resource(
        "coordination.k8s.io", "v1", "leases", "Lease", unconditional=False, create_on_update=True
    ),
    Resource(
        "policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", short=("pdb",),
        status=True, generation=True, unconditional=False,
    ),
    _cluster(
        EXTENSIONS, "customresourcedefinitions", "CustomResourceDefinition",
        short=("crd", "crds"), status=True, generation=True, unconditional=False,
    ),
    _cluster(
        REGISTRATION, "apiservices", "APIService", status=True, unconditional=False
    ),
    _cluster(
        ADMISSION, "mutatingwebhookconfigurations", "MutatingWebhookConfiguration",
        generation=True, unconditional=False,
    ),
    _cluster(
        ADMISSION, "validatingwebhookconfigurations", "ValidatingWebhookConfiguration",
        generation=True, unconditional=False,
    ),
    _cluster(
        ADMISSION, "validatingadmissionpolicies", "ValidatingAdmissionPolicy",
        status=True, generation=True, unconditional=False,
    ),
    _cluster(
        ADMISSION, "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding",
        generation=True, unconditional=False,
    ),
)  # fmt: skip
"""What a fresh server serves."""


class KindCatalogue:
    """The kinds that are served now; CustomResourceDefinitions come and go."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, str], Resource] = {
            (r.group, r.version, r.plural): r for r in BUILT_IN
        }

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        """The kind at that path, or None."""
        return self._known.get((group, version, plural))

    def put(self, resource: Resource) -> None:
        """Serve a kind, or serve it differently."""
        self._known[resource.group, resource.version, resource.plural] = resource

    def drop(self, group: str, plural: str) -> None:
        """Serve no version of a kind any more."""
        for key in [k for k in self._known if (k[0], k[2]) == (group, plural)]:
            del self._known[key]

    def __iter__(self) -> Iterator[Resource]:
        return iter(tuple(self._known.values()))
