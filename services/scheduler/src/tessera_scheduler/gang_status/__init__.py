"""Writes back how gangs stand: statuses of PodGroups and queues, as the replaced schedulers did."""
