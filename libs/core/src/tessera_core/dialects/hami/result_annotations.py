"""What HAMi writes on a pod that it placed, and what its node side gives the containers."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

from tessera_core.dialect_kit import (
    CORE_POLICY_ENV,
    LOG_FILE_ENV,
    LOG_LEVEL_ENV,
    STANDARD_ERROR,
    Card,
    Container,
    Injection,
    InvalidField,
    Placed,
    Pod,
    RecordedShares,
)
from tessera_core.dialect_kit.hami_format import (
    RESULT_KEYS,
    binding_notes,
    list_text,
    shares_in_list,
)
from tessera_core.dialects.hami.admission import OPT_OUT_ENV
from tessera_core.dialects.hami.amounts import container_requests
from tessera_core.dialects.hami.options import NAME, VENDOR, WORD, HamiOptions

TO_ALLOCATE: Final = "hami.io/vgpu-devices-to-allocate"
"""Device list that a plugin works off, container by container."""
ALLOCATED: Final = "hami.io/vgpu-devices-allocated"
"""The same list, which stays."""
MIG_ALLOCATIONS: Final = "hami.io/vgpu-mig-allocations"
KEYS: Final = (*RESULT_KEYS, TO_ALLOCATE, ALLOCATED, MIG_ALLOCATIONS)


def annotate(placed: Placed) -> dict[str, str]:
    """The annotations of the binding."""
    text = list_text(placed, WORD)
    return {**binding_notes(placed), TO_ALLOCATE: text, ALLOCATED: text}


def inject(options: HamiOptions, placed: Placed, container: Container) -> Injection:
    """The variables that limit a container. Those that it may choose for itself are left alone
    where it does; the switch that would take the limits away is turned back."""
    shares = placed.of(container.name)
    if not shares:
        return Injection()
    said = {variable.name for variable in container.env}
    env = {
        f"CUDA_DEVICE_MEMORY_LIMIT_{i}": f"{max(s.memory_mib, 1)}m"  # 0 would be no limit
        for i, s in enumerate(shares)
    }
    env["CUDA_DEVICE_SM_LIMIT"] = str(int(shares[0].cores_percent))
    named = f"{placed.pod.metadata.uid}/{container.name}".encode(errors="surrogatepass")
    usage = blake2b(named, digest_size=16).hexdigest()  # a fifth of the time of a UUID by name
    env["CUDA_DEVICE_MEMORY_SHARED_CACHE"] = f"{options.hook_path}/vgpu/{usage}.cache"
    if options.device_memory_scaling > 1:
        env["CUDA_OVERSUBSCRIBE"] = "true"
    if options.lib_cuda_log_level and LOG_LEVEL_ENV not in said:
        env[LOG_LEVEL_ENV] = options.lib_cuda_log_level
    if LOG_LEVEL_ENV in said | env.keys() and LOG_FILE_ENV not in said:
        env[LOG_FILE_ENV] = STANDARD_ERROR  # where HAMi-core logs
    if options.disable_core_limit and CORE_POLICY_ENV not in said:
        env[CORE_POLICY_ENV] = "disable"
    if OPT_OUT_ENV in said:
        env[OPT_OUT_ENV] = "false"
    return Injection(env=env)


def _names(options: HamiOptions, container: Container) -> bool:
    """Whether it names an amount that HAMi gives cards for."""
    *amounts, _priority = options.names
    named = container.resources.limits.keys() | container.resources.requests.keys()
    return not named.isdisjoint(amounts)


def recorded(options: HamiOptions, pod: Pod, cards: Sequence[Card]) -> RecordedShares | None:
    """What HAMi wrote that a bound pod holds."""
    if ALLOCATED not in pod.metadata.annotations:
        return None
    try:
        asking = {a.position for a in container_requests(options, pod) if a.count}
    except InvalidField:  # bound before it met our rules
        asking = {i for i, c in enumerate(pod.all_containers) if _names(options, c)}
    return shares_in_list(pod, cards, key=ALLOCATED, vendor=VENDOR, dialect=NAME, asking=asking)
