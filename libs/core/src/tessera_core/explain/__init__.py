"""Why a pod is where it is, or waits: reasons, decisions, and what would help."""
