"""All I/O and all tasks of the services: settings, Kubernetes, NATS, telemetry, lifecycle."""
