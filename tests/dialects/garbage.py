"""Amounts and lists that no user should write, and some that users do."""

from __future__ import annotations

from hypothesis import strategies as st

AMOUNTS = st.one_of(
    st.integers(-2, 200),
    st.integers(),
    st.floats(),
    st.sampled_from(["1", "16Gi", "500m", "1e3", "", "-1", "9" * 80, "1.0"]),
    st.text(max_size=6),
)


def device_lists(vendor: str) -> st.SearchStrategy[str]:
    """Texts near HAMi's lists of devices, with the made-up ids of this vendor's cards."""
    card = f"n-{vendor}-0,{vendor.capitalize()},1,1:"
    return st.one_of(
        st.text(f"n-{vendor}0129,:;MR.V ", max_size=60),
        st.sampled_from([f"{card};", card, ";;;;", "0,1"]),
        st.text(max_size=20),
    )
