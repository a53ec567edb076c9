#!/bin/sh
# Writes the locks of the images: what `requirements.lock` has, as far as each service needs it.
set -eu
cd "$(dirname "$0")/../.."

for service in agent console quota rebalancer scheduler; do
    # Our own packages are copied, not installed.
    ours=$(ls -d libs/*/src/tessera_* services/*/src/tessera_* sim/*/src/tessera_* | sed 's|.*/tessera_|--no-emit-package=tessera-|')
    # shellcheck disable=SC2086  (a list of words)
    .venv/bin/uv pip compile --quiet --python .venv/bin/python --python-version 3.11 \
        --python-platform linux --generate-hashes --no-header --no-annotate \
        --constraint requirements.lock $ours \
        "services/$service/pyproject.toml" -o "deploy/images/$service.lock"
done
