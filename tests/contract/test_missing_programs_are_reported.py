"""A developer who runs tests learns what is missing, in the builder's own words."""

from __future__ import annotations

import pytest

from tests.contract.kubebin import KubeBinMissing, kube_bin


def test_a_program_that_is_not_pinned_is_named_with_those_that_are() -> None:
    with pytest.raises(KubeBinMissing, match=r"no program 'kube-dns'; there are: etcd kube-api"):
        kube_bin("etcd", "kube-dns")
