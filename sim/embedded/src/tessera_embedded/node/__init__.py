"""A node in small: kubelet and container runtime in one process, containers as local processes.

It asks the agents over the real NRI wire, as containerd does, and does with their answers what can
be done without root: variables are set; a mount is not made but *translated*: a library that would
be preloaded is preloaded from where it lies, the hook's files are named by variables. What mounts
and device nodes do in a real container is shown by the tests on a real runtime, not here.
Left out: images, networks, volumes, cgroups, probes, logs over the API.
"""
