"""What is written back to PodGroups and queues: their objects and the pods in, statuses out."""
