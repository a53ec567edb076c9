"""The rebalancer: what usage says about cards, how far cores are lent, and what should move."""
