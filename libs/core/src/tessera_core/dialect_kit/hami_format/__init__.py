"""HAMi's wire form, as far as it is the same for every vendor.

HAMi writes one form of device list, node register and policy annotations for all makes of cards.
The dialects that speak it must not know each other, so what they share is here: nothing in this
package names a vendor.

- `device_config`: what an operator configures, as sections of `device-config.yaml`
- `device_lists`: what a pod was given, as `id,word,MiB,cores:...;` on the pod
- `node_config`: the same node by node, as its device plugin reads it
- `node_register`: what a node has, as `id,count,MiB,cores,type,numa,health[,index,mode]:` on the
  node
- `pod_annotations`: the annotations around a binding, and the small values that users write in
  annotations
- `policies`: how a user asks for nodes and cards to be chosen
"""

from __future__ import annotations

from tessera_core.dialect_kit.hami_format.device_config import DeviceConfigSection
from tessera_core.dialect_kit.hami_format.device_lists import (
    BadList,
    DeviceListEntry,
    decode_lists,
    encode_lists,
    list_text,
    shares_in_list,
)
from tessera_core.dialect_kit.hami_format.node_register import (
    RegisteredCard,
    card_of,
    encode_csv,
    plugin_is_gone,
    read_csv,
)
from tessera_core.dialect_kit.hami_format.pod_annotations import (
    RESULT_KEYS,
    annotation_field,
    binding_labels,
    binding_notes,
    bool_word,
    boolean_of,
    field_in,
    ids_of,
    words_of,
)
from tessera_core.dialect_kit.hami_format.policies import (
    CARD_POLICIES,
    NODE_POLICIES,
    POLICY_KEYS,
    card_words,
    policy_of,
    policy_warnings,
)
from tessera_core.dialect_kit.log_level import log_level_of

__all__ = [
    "CARD_POLICIES",
    "NODE_POLICIES",
    "POLICY_KEYS",
    "RESULT_KEYS",
    "BadList",
    "DeviceConfigSection",
    "DeviceListEntry",
    "RegisteredCard",
    "annotation_field",
    "binding_labels",
    "binding_notes",
    "bool_word",
    "boolean_of",
    "card_of",
    "card_words",
    "decode_lists",
    "encode_csv",
    "encode_lists",
    "field_in",
    "ids_of",
    "list_text",
    "log_level_of",
    "plugin_is_gone",
    "policy_of",
    "policy_warnings",
    "read_csv",
    "shares_in_list",
    "words_of",
]
