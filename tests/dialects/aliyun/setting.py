"""Aliyun's pods and nodes in short spellings."""

from __future__ import annotations

from collections.abc import Mapping

from tessera_core.dialects import aliyun
from tessera_schema.kube import Container, Node, Quantity
from tessera_testing.builders import a_container, a_node
from tessera_testing.dialects import DialectUnderTest

GIB = 1 << 30
MEMORY, CORE = "aliyun.com/gpu-mem", "aliyun.com/gpu-core.percentage"
COUNT = "aliyun.com/gpu-count"
INDEX, BY_POD, BY_CARD = (f"ALIYUN_COM_GPU_MEM_{word}" for word in ("IDX", "POD", "DEV"))
GIVEN, TIME = "ALIYUN_COM_GPU_MEM_ASSIGNED", "ALIYUN_COM_GPU_MEM_ASSUME_TIME"
ACK = "scheduler.framework.gpushare"
ALLOCATION = f"{ACK}.allocation"
CORE_ALLOCATION = "gpushare.alibabacloud.com/core-percentage"

UNDER_TEST = DialectUnderTest(aliyun)
made, accepted, rejected = UNDER_TEST.made, UNDER_TEST.accepted, UNDER_TEST.rejected


def asking(memory: Quantity | None = None, core: Quantity | None = None) -> Container:
    """A container with these limits."""
    limits = {MEMORY: memory, CORE: core}
    return a_container({name: q for name, q in limits.items() if q is not None})


def a_gpu_node(
    memory: Quantity | None, count: Quantity | None, labels: Mapping[str, str] | None = None
) -> Node:
    """A node that counts so much memory on so many cards."""
    capacity = {MEMORY: memory, COUNT: count}
    return a_node(
        "n1", capacity={k: v for k, v in capacity.items() if v is not None}, labels=labels
    )
