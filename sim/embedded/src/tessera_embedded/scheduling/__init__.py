"""kube-scheduler in small: the queue, the cycle, the extender's calls, the binding, as Kubernetes
1.34 does them where Tessera can see the difference.

Left out: preemption, volumes, affinity between pods, topology spread, and plug-ins' own
scores: of the nodes that are left, the extender's score decides, then the name.
"""
