"""A combination that cannot work is refused at the start, with what would do."""

import pytest

from tessera_agent.settings import AgentSettings
from tessera_runtime.errors import BadSettings
from tessera_runtime.settings import load

NEEDED = {"TESSERA_NODE": "worker-1", "TESSERA_VENDOR": "nvidia"}
D = "TESSERA_DELIVERY_"


def loaded(**variables: str) -> AgentSettings:
    return load(AgentSettings, NEEDED | variables)


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({f"{D}STRATEGY": "env"}, "write one of auto, envvar, volume-mounts, cdi"),
        ({f"{D}IDS": "name"}, "write one of uuid, index"),
        ({f"{D}STRATEGY": "cdi", f"{D}NODES": "true"}, r"delivery.nodes: true: strategy cdi .*wr"),
        ({f"{D}STRATEGY": "cdi-annotations", f"{D}NODES": "true"}, "strategy cdi-annot"),
        ({"TESSERA_GIVING": "allocate", f"{D}NODES": "true"}, "strategy auto is cdi"),
        ({f"{D}STRATEGY": "nodes", f"{D}IDS": "index"}, "delivery.ids: index: strategy nodes"),
        ({f"{D}CDI_PREFIX": "cdi.k8s.io"}, "delivery.cdi_prefix: 'cdi.k8s.io': write a domain"),
        ({f"{D}CDI_PREFIX": "a b/"}, "delivery.cdi_prefix: 'a b/'"),
        ({f"{D}FEATURES": "gds,gds"}, "delivery.features: gds comes twice"),
        ({f"{D}FEATURES": "rdma"}, "commas between, of one of gdrcopy, gds, mofed"),
        ({f"{D}IMEX_CHANNELS": "0,0"}, "delivery.imex_channels: 0 comes twice"),
        ({f"{D}IMEX_CHANNELS": "1048576"}, "TESSERA_DELIVERY_IMEX_CHANNELS"),
        ({f"{D}IMEX_REQUIRED": "true"}, "delivery.imex_required: true: no channel is asked for"),
        ({f"{D}LICENSE_FOLDER": "vgpu"}, "delivery.license_folder: 'vgpu': write a path"),
        ({"TESSERA_TOOLKIT_FILE": "ready"}, "toolkit.file: 'ready': write a path"),
        ({"TESSERA_TOOLKIT_WAIT_S": "0"}, "TESSERA_TOOLKIT_WAIT_S"),
        ({"TESSERA_PLUGIN_NUMA": "true"}, r"plugin.numa: true: kubelet asks .* giving allocate"),
    ],
)  # fmt: skip
def test_they_are_refused(variables: dict[str, str], message: str) -> None:
    with pytest.raises(BadSettings, match=message):
        loaded(**variables)


def test_those_that_do_are_taken() -> None:
    settings = loaded(
        TESSERA_GIVING="allocate", TESSERA_PLUGIN_NUMA="true", TESSERA_DELIVERY_STRATEGY="envvar",
        TESSERA_DELIVERY_NODES="true", TESSERA_DELIVERY_FEATURES="gdrcopy, mofed",
        TESSERA_DELIVERY_IMEX_CHANNELS="0,1048575", TESSERA_DELIVERY_IMEX_REQUIRED="true",
    )  # fmt: skip
    assert settings.delivery.imex_channels == (0, 1048575)
    assert [str(feature) for feature in settings.delivery.features] == ["gdrcopy", "mofed"]
