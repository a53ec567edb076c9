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
# Go is needed only for what is not there yet.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
programs=(etcd kube-apiserver kube-scheduler kube-controller-manager kube-proxy kubectl kubelet kwok
    containerd containerd-shim-runc-v2 ctr)

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
        kwok) echo kwok sigs.k8s.io/kwok/cmd/kwok 0 ;;
        containerd | containerd-shim-runc-v2 | ctr)
            echo containerd "github.com/containerd/containerd/v2/cmd/$1" 1 ;;
        *) complain "there is no program '$1'; there are: ${programs[*]}" ;;
    esac
}

# The version that a group's go.mod pins a module at.
pinned() {
    sed -nE "s|^.*\s$2 (v[0-9.]+)( // indirect)?\$|\1|p" "$here/$1/go.mod" | head -n 1
}

# What the linker writes into a group's programs: Kubernetes and containerd do not know their
# version by themselves, and others decide by it what they can do.
stamp_of() {
    local version parts at=k8s.io/component-base/version
    case $1 in
        kubernetes)
            version=$(pinned kubernetes k8s.io/kubernetes)
            IFS=. read -ra parts <<< "${version#v}"
            echo "-X $at.gitVersion=$version -X $at.gitMajor=${parts[0]} -X $at.gitMinor=${parts[1]}"
            ;;
        containerd)
            version=$(pinned containerd github.com/containerd/containerd/v2)
            echo "-X github.com/containerd/containerd/v2/version.Version=$version"
            ;;
    esac
}

build() {
    local program=$1 group package cgo began=$SECONDS
    read -r group package cgo < <(source_of "$program")
    echo "kube-bin: building $program" >&2
    half_built="$folder/.$program.$$"
    local -a compiler=()
    [[ $cgo == 1 ]] || compiler=(CGO_ENABLED=0)
    (
        cd "$here/$group"
        env GOWORK=off "${compiler[@]}" go build -mod=readonly -trimpath -buildvcs=false \
            -ldflags "-s -w $(stamp_of "$group")" -o "$half_built" "$package"
    ) >&2
    mv "$half_built" "$folder/$program"
    echo "kube-bin: built $program in $((SECONDS - began)) s" >&2
}

pins=$( (cat "$here"/*/go.mod "$here"/*/go.sum "${BASH_SOURCE[0]}"; uname -sm) | sha256sum)
folder=${TESSERA_KUBE_BIN:-${XDG_CACHE_HOME:-$HOME/.cache}/tessera/kube-bin}/${pins:0:16}
[[ $folder == /* ]] || folder=$PWD/$folder # go builds from another folder

if [[ ${1:-} == --where ]]; then
    echo "$folder"
    exit
fi

wanted=("$@")
((${#wanted[@]})) || wanted=("${programs[@]}")
for program in "${wanted[@]}"; do source_of "$program" > /dev/null; done

missing() { for program in "${wanted[@]}"; do [[ -x $folder/$program ]] || echo "$program"; done; }

if [[ -n $(missing) ]]; then
    command -v go > /dev/null || complain "these are not in $folder yet:" $(missing) \
        "- and there is no 'go' to build them with: install Go 1.24 or newer and put it on PATH"
    mkdir -p "$folder"
    exec 9> "$folder/.lock" # two that start together build once
    if command -v flock > /dev/null; then flock 9; fi
    half_built=
    trap '[[ -z $half_built ]] || rm -f "$half_built"' EXIT
    for program in $(missing); do build "$program"; done
fi
echo "$folder"
