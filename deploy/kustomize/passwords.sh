#!/bin/sh
# Prints the Secret with the message bus's passwords, made afresh:
#
#     deploy/kustomize/passwords.sh | kubectl create -f -
#
# The component `passwords` does this in the cluster; without it, run this once, before the first
# `kubectl apply -k`. To change them: `kubectl replace -f -`, then restart the StatefulSets tessera-nats
# and tessera-nats-cluster; the services read theirs again when they reconnect.
set -eu

password() { # begins with a letter: NATS would read digits as a number
    printf 'p%s' "$(od -An -N24 -tx1 /dev/urandom | tr -d ' \n')"
}

cat <<EOF
apiVersion: v1
kind: Secret
metadata:
  name: tessera-bus
  namespace: tessera-system
type: Opaque
stringData:
  scheduler: $(password)
  agent: $(password)
  quota: $(password)
  rebalancer: $(password)
  viewer: $(password)
  operator: $(password)
  cluster: $(password)
EOF
