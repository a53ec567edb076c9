"""What a dialect and a vendor are written with: all that their authors import.

- `contract`: `Dialect`, `Vendor`, and the values that their functions take and return
- `amounts`, `resources`: a container's amounts, read with refusals that name field, value and
  remedy; what admission writes into limits and requests
- `card_settings`: what an installation says of cards over what their driver says
- `memory_units`, `capacity_cards`, `card_ids`: units of memory; cards of which a node says totals
- `lending_terms`, `core_policy`: on what terms a container takes part in lending
- `hami_core_log_level`: what a container's variables say of the hook's log
- `monitoring`, `readings`: what an agent knows of a make of hardware, and what it reads
- `hami_format`: HAMi's wire form, imported from there

Kubernetes' objects, cards, requests and grants are types of `tessera_schema`, and some helpers are
of lower packages of core; they are here too. import-linter holds dialects and vendors to this
package.
"""

from __future__ import annotations

from tessera_core.dialect_kit.amounts import (
    INT32_MAX,
    INT64_MAX,
    LIMITS_THEN_REQUESTS,
    InvalidField,
    find_amount,
    invalid_field,
    parse_amount,
    parse_memory_amount,
)
from tessera_core.dialect_kit.capacity_cards import (
    MOST_CARDS,
    CapacityScheme,
    capacity_total,
    capacity_warning,
    cards_from_capacity,
    counted_inventories,
)
from tessera_core.dialect_kit.card_ids import card_list, numbered_card_id
from tessera_core.dialect_kit.card_settings import CardSettings
from tessera_core.dialect_kit.contract import (
    Admitted,
    BadLimit,
    Capacity,
    Claim,
    ContainerChange,
    DeviceEvidence,
    Dialect,
    Dimension,
    Example,
    Measure,
    Placed,
    QuotaUnit,
    RecordedShares,
    Rejected,
    Vendor,
    claim_by_name,
    never_best_effort,
)
from tessera_core.dialect_kit.core_policy import CORE_POLICY_ENV, core_policy
from tessera_core.dialect_kit.lending_terms import (
    LendingTerms,
    WrittenTerms,
    plain_terms,
    whole_number,
)
from tessera_core.dialect_kit.log_level import (
    LOG_FILE_ENV,
    LOG_LEVEL_ENV,
    STANDARD_ERROR,
    hami_core_log_level,
)
from tessera_core.dialect_kit.memory_units import LEAST_CARD_BYTES, MOST_CARD_BYTES, MemoryUnit
from tessera_core.dialect_kit.monitoring import (
    CompetingPlugin,
    CompetingSystem,
    MinimumVersion,
    MonitoringSpec,
)
from tessera_core.dialect_kit.readings import CardReading, Fault, Link, ProcessReading, Readings
from tessera_core.dialect_kit.resources import complete_resources
from tessera_core.fleet.charges import charges
from tessera_core.hook.paths import HOOK_LIBRARY, HOOK_LIBRARY_HOST, PRELOAD, PRELOAD_HOST
from tessera_core.kube.containers import field_of, roles
from tessera_core.kube.label_selectors import BadSelector, parse_selector
from tessera_core.kube.quantity import (
    BadQuantity,
    binary_quantity,
    integer_quantity,
    quantity_milli,
    quantity_value,
)
from tessera_schema.annotation_keys import CARDS_PREFIX, SCHEDULER
from tessera_schema.cards import MIB, Card, Inventory, Partition, Precision, Siting
from tessera_schema.grants import GRANT_KEY, Share
from tessera_schema.injections import Injection, Mount
from tessera_schema.json_codec import decoder
from tessera_schema.kube import Container, Custom, Node, ObjectMeta, Pod, Quantity
from tessera_schema.label_selectors import LabelTest, Selector
from tessera_schema.quotas import Limit
from tessera_schema.reasons import Reason
from tessera_schema.requests import (
    CardKey,
    Choice,
    ContainerRequest,
    Grouping,
    ModelSizes,
    NodeOrder,
    Policy,
    Request,
    Role,
    Scope,
    Weights,
)

__all__ = [
    "CARDS_PREFIX",
    "CORE_POLICY_ENV",
    "GRANT_KEY",
    "HOOK_LIBRARY",
    "HOOK_LIBRARY_HOST",
    "INT32_MAX",
    "INT64_MAX",
    "LEAST_CARD_BYTES",
    "LIMITS_THEN_REQUESTS",
    "LOG_FILE_ENV",
    "LOG_LEVEL_ENV",
    "MIB",
    "MOST_CARDS",
    "MOST_CARD_BYTES",
    "PRELOAD",
    "PRELOAD_HOST",
    "SCHEDULER",
    "STANDARD_ERROR",
    "Admitted",
    "BadLimit",
    "BadQuantity",
    "BadSelector",
    "Capacity",
    "CapacityScheme",
    "Card",
    "CardKey",
    "CardReading",
    "CardSettings",
    "Choice",
    "Claim",
    "CompetingPlugin",
    "CompetingSystem",
    "Container",
    "ContainerChange",
    "ContainerRequest",
    "Custom",
    "DeviceEvidence",
    "Dialect",
    "Dimension",
    "Example",
    "Fault",
    "Grouping",
    "Injection",
    "InvalidField",
    "Inventory",
    "LabelTest",
    "LendingTerms",
    "Limit",
    "Link",
    "Measure",
    "MemoryUnit",
    "MinimumVersion",
    "ModelSizes",
    "MonitoringSpec",
    "Mount",
    "Node",
    "NodeOrder",
    "ObjectMeta",
    "Partition",
    "Placed",
    "Pod",
    "Policy",
    "Precision",
    "ProcessReading",
    "Quantity",
    "QuotaUnit",
    "Readings",
    "Reason",
    "RecordedShares",
    "Rejected",
    "Request",
    "Role",
    "Scope",
    "Selector",
    "Share",
    "Siting",
    "Vendor",
    "Weights",
    "WrittenTerms",
    "binary_quantity",
    "capacity_total",
    "capacity_warning",
    "card_list",
    "cards_from_capacity",
    "charges",
    "claim_by_name",
    "complete_resources",
    "core_policy",
    "counted_inventories",
    "decoder",
    "field_of",
    "find_amount",
    "hami_core_log_level",
    "integer_quantity",
    "invalid_field",
    "never_best_effort",
    "numbered_card_id",
    "parse_amount",
    "parse_memory_amount",
    "parse_selector",
    "plain_terms",
    "quantity_milli",
    "quantity_value",
    "roles",
    "whole_number",
]
