"""`tessera explain`: asking the cluster why a pod waits."""
