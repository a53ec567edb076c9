#!/bin/sh
# Takes Tessera off a cluster, in the order in which nothing is left behind that refuses pods:
#
#     deploy/kustomize/uninstall.sh OVERLAY [--yes]
#
# OVERLAY is the folder that was applied with `kubectl apply -k`. Pods that run keep their cards and
# their limits. Without --yes it says what it would do. KUBECTL names another program, or one with
# options: KUBECTL='kubectl --context mine'.
set -eu

KUBECTL=${KUBECTL:-kubectl}
HOME_NAMESPACE=tessera-system
REGISTRATIONS='mutatingwebhookconfiguration validatingwebhookconfiguration'
APISERVICE=v1alpha1.visibility.tessera.dev

complain() {
    echo "uninstall: $*" >&2
    exit 1
}

overlay=${1:-}
[ -n "$overlay" ] || complain 'say which overlay was applied: deploy/kustomize/uninstall.sh OVERLAY [--yes]'
[ -f "$overlay/kustomization.yaml" ] || complain "$overlay: there is no kustomization.yaml in it"
case ${2:-} in
    --yes) run() { "$@"; } ;;
    '') run() { echo "would run: $*"; } ;;
    *) complain "$2: write --yes, or nothing" ;;
esac

# A runtime that requires the agent would create no container on the node once the agent is gone. The
# component `containerd` takes back what it wrote, node by node, while the agents still run.
configured=$($KUBECTL -n $HOME_NAMESPACE get daemonset/tessera-containerd --ignore-not-found -o name)
if [ -n "$configured" ]; then
    run $KUBECTL -n $HOME_NAMESPACE set env "$configured" TESSERA_MODE=remove
    run $KUBECTL -n $HOME_NAMESPACE rollout status "$configured" --timeout="${TESSERA_CONTAINERD_TIMEOUT:-1h}" ||
        complain "not every node's containerd is as it was: kubectl get events -A | grep Containerd
says why. Put it right, or wait longer (TESSERA_CONTAINERD_TIMEOUT=5h), and run this again"
# Without it the node's configuration cannot be read from here, so this is asked.
elif [ "${2:-}" = --yes ] && [ "${TESSERA_RUNTIME_REQUIRES:-}" != no ]; then
    complain "first take required_plugins = [\"tessera\"] out of every node's containerd configuration and
restart containerd, or no container starts there once the agent is gone. Then run this again with
TESSERA_RUNTIME_REQUIRES=no in the environment"
fi

# The names that agents wrote into their nodes' status go while the agents still run.
run $KUBECTL -n $HOME_NAMESPACE set env daemonset -l app.kubernetes.io/name=tessera-agent \
    TESSERA_INVENTORY_ADVERTISE=false
for agent in $($KUBECTL -n $HOME_NAMESPACE get daemonset -l app.kubernetes.io/name=tessera-agent -o name); do
    run $KUBECTL -n $HOME_NAMESPACE rollout status "$agent" --timeout=300s
done
still_advertised() {
    $KUBECTL get nodes -o jsonpath='{range .items[*]}{.metadata.name} {.metadata.annotations}{"\n"}{end}' |
        grep 'advertises[\\]*":{[\\]*"' | cut -d ' ' -f 1 | tr '\n' ' '
}
if [ "${2:-}" = --yes ]; then
    waited=0
    while [ -n "$(still_advertised)" ] && [ "$waited" -lt 120 ]; do
        sleep 2
        waited=$((waited + 2))
    done
    [ -z "$(still_advertised)" ] || echo "uninstall: amounts stay in the status of nodes whose agents do not answer: $(still_advertised)" >&2
fi

# The scheduler writes its registrations again while it runs, so it ends first.
run $KUBECTL -n $HOME_NAMESPACE scale deployment/tessera-scheduler --replicas=0
run $KUBECTL -n $HOME_NAMESPACE wait pod -l app.kubernetes.io/name=tessera-scheduler \
    --for=delete --timeout=120s
# Before any namespace: the deletion of one waits for every APIService that nobody answers.
run $KUBECTL delete apiservice $APISERVICE --ignore-not-found
for kind in $REGISTRATIONS; do
    run $KUBECTL delete "$kind" tessera --ignore-not-found
done
run $KUBECTL delete -k "$overlay" --ignore-not-found

[ "${2:-}" = --yes ] || exit 0
left=$($KUBECTL get $(echo "$REGISTRATIONS" | tr ' ' ,) -o name | grep '/tessera$' || true)
left="$left$($KUBECTL get apiservice $APISERVICE --ignore-not-found -o name)"
[ -z "$left" ] || complain "still there: $left. Is a scheduler still running? Delete them by hand"
cat <<'END'
Tessera is gone from the cluster. When the last pod that held a share has ended, remove /usr/local/tessera
and /var/lib/tessera from the nodes, and the annotations cards.tessera.dev/<vendor> from the Node objects.
END
