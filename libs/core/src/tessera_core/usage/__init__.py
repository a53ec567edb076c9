"""From measured usage to hints and bounds for lending."""
