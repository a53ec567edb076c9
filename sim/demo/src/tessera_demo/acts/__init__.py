"""What the demo plays after its first pods: each act brings what it needs, and checks."""
