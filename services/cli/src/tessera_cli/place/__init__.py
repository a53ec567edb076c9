"""`tessera place`: reading manifests, planning pods, showing the answer."""
