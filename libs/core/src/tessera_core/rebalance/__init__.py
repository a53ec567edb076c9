"""What measurements are good for: hints, bounds for lending, and proposals of changes.

`smoothing` keeps what every container and card does, `holders` what they were granted; `hints` and
`bounds` put the two together. All of it is pure: time comes in, messages go out. It gives nobody a
card and takes none: a hint that is wrong, old or missing costs throughput alone.

    smoother, hinting = Smoother(), Hinting()
    smoother.take(usage, now)                        # each NodeUsage
    seen = smoother.node("node-7", now)              # a SmoothNode
    hints = hinting.build(seen, holders)                 # NodeHints, bounds included
    pressure.set_pressure(fleet, hints)                  # orders go by it from now on
"""
