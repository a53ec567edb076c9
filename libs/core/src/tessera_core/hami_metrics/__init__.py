"""Tessera's figures under the names that HAMi's boards, its web interface and their users query."""
