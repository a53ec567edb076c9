# Outside clients from PyPI in a temporary environment. TESSERA_CLIENT_PYTHON names an interpreter that has them already.
scratch=$2
python=$TESSERA_CLIENT_PYTHON
if [ -z "$python" ]; then
    python3 -m venv "$scratch/venv" >/dev/null 2>&1 && "$scratch/venv/bin/pip" install -q 'cuda-bindings==12.8.*' nvidia-ml-py >/dev/null 2>&1 || { echo "skipped: no cuda-bindings, nvidia-ml-py"; exit 0; }
    python=$scratch/venv/bin/python
fi
TESSERA_SIM_CONFIG="cards=2 memory=1g context=100m clock=virtual" "$python" "$(dirname "$0")/clients.py"
