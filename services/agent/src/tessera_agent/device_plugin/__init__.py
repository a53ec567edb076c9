"""Cards that kubelet gives to containers, through a device plugin."""
