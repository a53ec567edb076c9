#!/bin/sh
# Installs what requirements.txt pins into a folder outside the clone, once, and prints the Python there.
#
#   install.sh            install what is not there yet (some gigabytes, minutes)
#   install.sh --where    install nothing, print the folder
#
# The folder is one for each set of pins, so that another clone finds it:
# ${TESSERA_TORCH_CACHE:-${XDG_CACHE_HOME:-~/.cache}/tessera/torch}/<hash of pins>. PYTHON: 3.11 or newer.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-python3}
recipe=1 # one more when it is installed otherwise
hash=$({ cat "$here/requirements.txt"; echo "$recipe"; "$python" -c 'import sys; print(sys.version_info[:2])'; } | sha256sum | cut -c1-16)
folder=${TESSERA_TORCH_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tessera/torch}/$hash
[ "${1:-}" != --where ] || { echo "$folder"; exit; }
if [ ! -f "$folder/.made" ]; then
    mkdir -p "$folder"
    exec 9>"$folder.lock"
    flock 9
    if [ ! -f "$folder/.made" ]; then
        echo "installing into $folder" >&2
        "$python" -m venv --clear "$folder" >&2
        "$folder/bin/python" -m pip install --quiet --require-hashes -r "$here/requirements.txt" >&2
        touch "$folder/.made"
    fi
fi
echo "$folder/bin/python"
