"""A container runtime hands its plugins the variables of the image and then those of the pod. Of
two entries of a name it replaces the first by what a plugin answers, and the last one counts."""

from tessera_embedded.runtime.merge import amended
from tessera_kubelet.nri import protobuf
from tessera_kubelet.nri.types import Adjustment, ContainerInfo
from tessera_kubelet.proto import nri_pb2 as pb


def test_the_pods_value_counts_and_no_plugin_replaces_it() -> None:
    sent = pb.Container(id="c", env=["CARDS=image", "PATH=/bin", "CARDS=pod"])
    container = protobuf.container(sent)
    assert container.env == {"CARDS": "pod", "PATH": "/bin"}
    assert container.set_twice == {"CARDS"}
    made = amended(container, Adjustment(env={"CARDS": "plugin", "PATH": "/sbin"}))
    assert made.env == {"CARDS": "pod", "PATH": "/sbin"}


def test_it_is_sent_as_it_is() -> None:
    container = ContainerInfo(
        id="c", sandbox_id="s", name="main", env={"A": "1", "B": "2"}, set_twice=frozenset("B")
    )
    assert protobuf.container(protobuf.container_message(container)) == container
