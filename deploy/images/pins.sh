#!/bin/sh
# A kustomize component that pins Tessera's images by their digests. Reads one reference a line, as a
# registry answers a push: REGISTRY/IMAGE@sha256:DIGEST.
#
#     deploy/images/pins.sh < references > my-overlay/pins/kustomization.yaml
set -eu

awk '
    BEGIN { head = "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nimages:" }
    !/^[^@ ]+\/[a-z]+@sha256:[0-9a-f]+$/ || length(substr($0, index($0, "@") + 8)) != 64 {
        print "pins: line " NR ": " $0 ": write REGISTRY/IMAGE@sha256: and 64 digits" > "/dev/stderr"
        bad = 1
        exit 1
    }
    {
        at = index($0, "@")
        name = substr($0, 1, at - 1)
        image = name
        sub(/.*\//, "", image)
        lines = lines "\n  - {name: registry.invalid/tessera/" image ", newName: \"" name "\", digest: \"" \
            substr($0, at + 1) "\"}"
    }
    END {
        if (bad) exit 1
        if (!lines) { print "pins: no image was named on standard input" > "/dev/stderr"; exit 1 }
        print head lines
    }
'
