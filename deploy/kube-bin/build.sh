#!/usr/bin/env bash
# Builds the programs of a real cluster from source, at the versions that the go.mod files beside
# this script pin, and prints the folder they are in.
#
#   build.sh                  all of them
#   build.sh etcd kubelet     these only
#   build.sh --where          build nothing, print the folder
#
# The folder lies outside the clone, one for each set of pins, so another clone finds it and nothing
# is built twice: ${TESSERA_KUBE_BIN:-${XDG_CACHE_HOME:-~/.cache}/tessera/kube-bin}/<hash of pins>.
# Each group of pins is built in a folder of its own beside it, and linked from there: a group that
# changes leaves the others as they are. Go is needed only for what is not there yet.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
recipe=1 # one more when programs are built otherwise, so that they are built again
programs=(etcd kube-apiserver kube-scheduler kube-controller-manager kube-proxy kubectl kubelet kwok
    containerd containerd-shim-runc-v2 ctr
    containerd-2.1/containerd containerd-2.1/containerd-shim-runc-v2 helm prometheus)
groups=(containerd containerd-2.1 etcd helm kubernetes kwok prometheus)

complain() {
    echo "kube-bin: $*" >&2
    exit 1
}

# A program's group of pins, its package, and whether it may use C (1: where there is a compiler,
# as its makers build it).
source_of() {
    case $1 in
        etcd) echo etcd go.etcd.io/etcd/server/v3 0 ;;
        kube-apiserver | kube-scheduler | kube-controller-manager | kube-proxy | kubectl)
            echo kubernetes "k8s.io/kubernetes/cmd/$1" 0 ;;
        kubelet) echo kubernetes k8s.io/kubernetes/cmd/kubelet 1 ;;
        helm) echo helm helm.sh/helm/v3/cmd/helm 0 ;;
        prometheus) echo prometheus github.com/prometheus/prometheus/cmd/prometheus 0 ;;
        kwok) echo kwok sigs.k8s.io/kwok/cmd/kwok 0 ;;
        containerd | containerd-shim-runc-v2 | ctr)
            echo containerd "github.com/containerd/containerd/v2/cmd/$1" 1 ;;
        containerd-2.1/containerd | containerd-2.1/containerd-shim-runc-v2)
            echo containerd-2.1 "github.com/containerd/containerd/v2/cmd/${1#*/}" 1 ;;
        *) complain "there is no program '$1'; there are: ${programs[*]}" ;;
    esac
}

# The version that a group's go.mod pins a module at.
pinned() {
    sed -nE "s|^.*\s$2 (v[0-9.]+)( // indirect)?\$|\1|p" "$here/$1/go.mod" | head -n 1
}

# What the linker writes into a group's programs: Kubernetes, containerd and helm do not know their
# version by themselves, and others decide by it what they can do.
stamp_of() {
    local version parts at=k8s.io/component-base/version
    case $1 in
        kubernetes)
            version=$(pinned kubernetes k8s.io/kubernetes)
            IFS=. read -ra parts <<< "${version#v}"
            echo "-X $at.gitVersion=$version -X $at.gitMajor=${parts[0]} -X $at.gitMinor=${parts[1]}"
            ;;
        containerd*)
            version=$(pinned "$1" github.com/containerd/containerd/v2)
            echo "-X github.com/containerd/containerd/v2/version.Version=$version"
            ;;
        helm)
            version=$(pinned helm helm.sh/helm/v3)
            IFS=. read -ra parts <<< "$(pinned helm k8s.io/client-go)"
            at=helm.sh/helm/v3/pkg/chartutil
            echo "-X helm.sh/helm/v3/internal/version.version=$version"
            echo "-X $at.k8sVersionMajor=1 -X $at.k8sVersionMinor=${parts[1]}"
            ;;
    esac
}

# What a group's programs are built without: tests give Prometheus its targets by address.
tags_of() {
    case $1 in
        prometheus) echo remove_all_sd ;;
    esac
}

# What decides how the programs of a group come out.
pins_of() {
    local pins
    pins=$( (cat "$here/$1/go.mod" "$here/$1/go.sum"; echo "$recipe"; uname -sm) | sha256sum)
    echo "${pins:0:16}"
}

build() {
    local program=$1 group package cgo began=$SECONDS
    read -r group package cgo < <(source_of "$program")
    local built=$root/$group-$(pins_of "$group")/${program##*/}
    if [[ ! -x $built ]]; then
        echo "kube-bin: building $program" >&2
        mkdir -p "${built%/*}"
        half_built=$built.$$
        local -a compiler=()
        [[ $cgo == 1 ]] || compiler=(CGO_ENABLED=0)
        (
            cd "$here/$group"
            env GOWORK=off "${compiler[@]}" go build -mod=readonly -trimpath -buildvcs=false \
                -tags "$(tags_of "$group")" -ldflags "-s -w $(stamp_of "$group")" -o "$half_built" "$package"
        ) >&2
        mv "$half_built" "$built"
        echo "kube-bin: built $program in $((SECONDS - began)) s" >&2
    fi
    mkdir -p "$folder/$(dirname "$program")"
    half_built=$folder/$program.$$
    ln -f "$built" "$half_built" 2> /dev/null || cp "$built" "$half_built"
    mv "$half_built" "$folder/$program"
}

root=${TESSERA_KUBE_BIN:-${XDG_CACHE_HOME:-$HOME/.cache}/tessera/kube-bin}
[[ $root == /* ]] || root=$PWD/$root # go builds from another folder
pins=$(for group in "${groups[@]}"; do pins_of "$group"; done | sha256sum)
folder=$root/${pins:0:16}

if [[ ${1:-} == --where ]]; then
    echo "$folder"
    exit
fi

wanted=("$@")
((${#wanted[@]})) || wanted=("${programs[@]}")
for program in "${wanted[@]}"; do source_of "$program" > /dev/null; done

missing() { for program in "${wanted[@]}"; do [[ -x $folder/$program ]] || echo "$program"; done; }
unbuilt() {
    local group rest
    for program in $(missing); do
        read -r group rest < <(source_of "$program")
        [[ -x $root/$group-$(pins_of "$group")/${program##*/} ]] || echo "$program"
    done
}

if [[ -n $(missing) ]]; then
    if [[ -n $(unbuilt) ]] && ! command -v go > /dev/null; then
        complain "these are not in $folder yet:" $(unbuilt) \
            "- and there is no 'go' to build them with: install Go 1.24 or newer and put it on PATH"
    fi
    mkdir -p "$root"
    exec 9> "$root/.lock" # two that start together build once
    if command -v flock > /dev/null; then flock 9; fi
    half_built=
    trap '[[ -z $half_built ]] || rm -f "$half_built"' EXIT
    for program in $(missing); do build "$program"; done
fi
echo "$folder"
