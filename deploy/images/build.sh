#!/bin/sh
# Builds Tessera's images: build.sh REGISTRY TAG [IMAGE...]
#
# With docker or podman, whichever answers; BUILDER names one. Where neither does, archives are written
# instead, made of this machine's own Python and libraries, as the tests make them: for nodes of this
# machine's kind, and not for a registry. ARCHIVES is the folder they go to.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
repository=$(cd "$here/../.." && pwd)

complain() {
    echo "images: $*" >&2
    exit 1
}

[ $# -ge 2 ] || complain 'say where images are to be: build.sh REGISTRY TAG [IMAGE...], such as build.sh registry.example.org/tessera 0.1.0'
registry=$1 tag=$2
shift 2
all=$(cd "$here" && ls -- *.Dockerfile | sed 's/\.Dockerfile$//' | tr '\n' ' ')
# shellcheck disable=SC2086  # words
[ $# -gt 0 ] || set -- $all
for image in "$@"; do
    [ -f "$here/$image.Dockerfile" ] || complain "there is no image '$image'; there are: $all"
done

answers() {
    command -v "$1" > /dev/null && "$1" info > /dev/null 2>&1
}
builder=${BUILDER:-}
if [ -z "$builder" ]; then
    for one in docker podman; do
        if answers $one; then builder=$one && break; fi
    done
elif [ "$builder" != none ]; then
    answers "$builder" || complain "BUILDER=$builder: \`$builder info\` fails"
fi

revision=$(git -C "$repository" rev-parse HEAD 2> /dev/null || true)
case ${builder:-none} in
    none)
        echo 'images: neither docker nor podman answers: writing archives' >&2
        cd "$repository"
        exec "${PYTHON:-.venv/bin/python}" -m tests.e2e.archives --registry "$registry" --tag "$tag" \
            --into "${ARCHIVES:-build/images}" "$@"
        ;;
    podman) ignore() { echo "--ignorefile=$here/$1.Dockerfile.dockerignore"; } ;;
    *) ignore() { :; } ;; # BuildKit finds it by its name
esac
for image in "$@"; do
    # shellcheck disable=SC2046  # one word, or none
    "$builder" build --quiet $(ignore "$image") --file "$here/$image.Dockerfile" \
        --build-arg "REVISION=$revision" --tag "$registry/$image:$tag" "$repository" > /dev/null
    echo "$registry/$image:$tag"
done
