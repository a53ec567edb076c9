"""Which replica answers, and what holds back the others."""
