"""Who holds which shares: entries, charges, and what changes them."""
