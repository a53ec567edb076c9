"""What a write must pass: webhooks, policies in CEL, and which of them it concerns."""
