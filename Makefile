PYTHON ?= python3
JOBS ?= 4
CHECKS := lint types contracts spelling names

MEMBERS := $(patsubst %/pyproject.toml,%,$(wildcard libs/*/pyproject.toml services/*/pyproject.toml sim/*/pyproject.toml))
CODE := $(wildcard libs services sim tests) $(patsubst %/,%,$(sort $(dir $(wildcard benchmarks/*.py deploy/helm/*.py deploy/kustomize/*.py))))
# What makes it says so on standard error: standard output is for the answers of commands.
# A virtual environment does not survive a move: its stamps name the folder it was made in.
HERE := $(shell printf %s '$(CURDIR)' | cksum | cut -d' ' -f1)
MADE := .venv/.made-$(HERE)
PROTO := libs/kubelet/src/tessera_kubelet/proto
SYNCED := .venv/.synced-$(HERE)
UV := .venv/bin/uv
ON_VENV := --python .venv/bin/python

# Tests start many processes of ours: each would compile what none may write down.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: console-test pictures help sync lock generate kube-bin fmt lint types contracts spelling names checks images test fuzz e2e faults gangs gang-walks eviction-walks demo place bench hook hook-test torch-test verify clean

##@ Try it

demo: $(SYNCED) ## run everything here, on simulated cards (ARGS=--plain, --json, --checks, --kill, --keep)
	@.venv/bin/tessera demo $(ARGS)

place: ARGS = -f examples
place: $(SYNCED) ## place the pods of examples/ (ARGS="-f mine.yaml -o json" for others)
	.venv/bin/tessera place $(ARGS)

##@ Set up

sync: $(SYNCED) ## install everything into .venv, if anything changed

$(MADE):
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Tessera needs Python 3.11 or newer; set PYTHON=")'
	@echo 'making .venv' >&2
	@$(PYTHON) -m venv --clear .venv
	@sed -n '/^uv==/,/[^\\]$$/p' requirements.lock > .venv/uv.txt
	@.venv/bin/python -m pip install --quiet --require-hashes -r .venv/uv.txt >&2
	@touch $@

$(SYNCED): $(MADE) requirements.lock $(MEMBERS:%=%/pyproject.toml)
	@echo 'installing into .venv' >&2
	@$(UV) pip sync --quiet --compile-bytecode $(ON_VENV) --require-hashes requirements.lock >&2
	@$(UV) pip install --quiet $(ON_VENV) --no-deps $(MEMBERS:%=-e %) >&2
	@touch $@

hook: ## build the C library
	$(MAKE) -C libs/hook all

images: REGISTRY = registry.invalid/tessera
images: TAG = dev
images: $(SYNCED) hook ## build the images, with docker, podman or neither (REGISTRY=registry.example.org/tessera TAG=0.1.0)
	@deploy/images/build.sh $(REGISTRY) $(TAG) $(ARGS)

kube-bin: ## build the Kubernetes programs that tests run against, once, into a cache
	deploy/kube-bin/build.sh $(ARGS)

clean: ## remove what was made here
	rm -rf .venv .*_cache .hypothesis
	@! test -f libs/hook/Makefile || $(MAKE) -C libs/hook clean

help: ## show this
	@awk -F ':.*## ' '/^##@ / { print (line++ ? "\n" : "") substr($$0, 5) } \
		/^[a-z0-9-]+:.*## / { printf "  %-10s %s\n", $$1, $$2 }' Makefile

##@ Change

fmt: $(SYNCED) ## format, and mend what ruff can mend
	.venv/bin/ruff check --fix-only --quiet .
	.venv/bin/ruff format .

generate: $(SYNCED) ## write generated code and pages again
	.venv/bin/python -m grpc_tools.protoc -I proto --plugin=protoc-gen-mypy=.venv/bin/protoc-gen-mypy \
		--python_out=$(PROTO) --mypy_out=quiet:$(PROTO) $(notdir $(wildcard proto/*.proto))
	.venv/bin/python -m tessera_testing.event_docs docs
	.venv/bin/python deploy/kustomize/generate.py
	.venv/bin/python -m deploy.helm.generate
	.venv/bin/python -m tests.house.reference

lock: $(MADE) ## bring requirements.lock up to date (ARGS=--upgrade: with newer versions)
	UV_CUSTOM_COMPILE_COMMAND='make lock' $(UV) pip compile --quiet $(ON_VENV) --universal --python-version 3.11 \
		--exclude-newer '7 days' --generate-hashes $(MEMBERS:%=%/pyproject.toml) --group dev \
		$(foreach member,$(MEMBERS),--no-emit-package tessera-$(notdir $(member))) -o requirements.lock $(ARGS)
	sh deploy/images/lock.sh

pictures: $(SYNCED) ## make docs/pictures again: a demo is played and recorded, the console drawn (needs Chromium)
	.venv/bin/python -m tests.demo.pictures docs/pictures
	.venv/bin/python -m tests.console.pictures docs/pictures

##@ Check

lint: $(SYNCED) ## ruff: rules and format
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .

types: $(SYNCED) ## mypy, strict, tests included
	.venv/bin/mypy $(CODE)

contracts: $(SYNCED) ## who may import whom
	.venv/bin/lint-imports --no-logo

spelling: $(SYNCED) ## codespell
	.venv/bin/codespell

names: ## no utils.py, no address in the lock, every member known to the tools
	@! find $(CODE) -name utils.py -o -name helpers.py -o -name common.py -o -name manager.py \
		| grep . || { echo 'name a module after its noun'; exit 1; }
	@! grep -nE '://|--(extra-)?index-url|--find-links' requirements.lock \
		|| { echo 'requirements.lock names an address'; exit 1; }
	@for member in $(MEMBERS); do for word in "\"tessera_$${member##*/}\"" "\"$$member/src\""; do \
		grep -qF "$$word" pyproject.toml || { echo "pyproject.toml lacks $$word"; exit 1; }; done; done

checks: $(CHECKS) ## every check of the Python code but its tests

##@ Test

test: $(SYNCED) ## pytest (ARGS="-k words" for some of it)
	.venv/bin/pytest -n $(JOBS) $(ARGS)

hook-test: ## test the C library, and once more as clang builds it
	$(MAKE) -C libs/hook test
	@if command -v clang >/dev/null; then $(MAKE) -C libs/hook clang; \
		elif [ "$(CI)" = true ]; then echo 'clang is missing'; exit 1; \
		else echo 'clang is not here: skipped'; fi

torch-test: hook ## run PyTorch and others on the simulated driver (some GB, once, into a cache; ARGS="native numba")
	$(MAKE) -C libs/hook cudart
	python=$$(libs/hook/torch/install.sh) && $(PYTHON) libs/hook/torch/run.py $(CURDIR)/libs/hook/build $$python $(ARGS)

e2e: $(SYNCED) ## a whole installation on real components, in a network of its own (root)
	deploy/kube-bin/build.sh > /dev/null
	.venv/bin/python -m tests.e2e.former_release
	unshare --net .venv/bin/pytest -m 'e2e and not faults' -s $(ARGS) tests/e2e

faults: ROUNDS = 100
faults: SEED = 0
faults: $(SYNCED) ## make e2e, and all that may happen to it, for long (root; ROUNDS=100, SEED=7)
	deploy/kube-bin/build.sh > /dev/null
	unshare --net .venv/bin/pytest -m faults -s --rounds=$(ROUNDS) --seed=$(SEED) $(ARGS) tests/e2e

gangs: ROUNDS = 50
gangs: SIZE = 4000
gangs: $(SYNCED) ## gangs on a real control plane, for long (ROUNDS=50 of two that fit one at a time, SIZE=4000 of the largest)
	.venv/bin/pytest -s --gang-rounds=$(ROUNDS) --gang-size=$(SIZE) $(ARGS) tests/cluster/gangs

gang-walks: SEEDS = 200
gang-walks: STEPS = 500
gang-walks: SEED = 1000
gang-walks: $(SYNCED) ## random walks of schedulers that start gangs, for long (SEEDS=200 STEPS=500, SEED=1000 the first)
	PYTHONHASHSEED=0 .venv/bin/python -m tests.machine.gangs.many_walks $(SEEDS) $(STEPS) $(SEED)

eviction-walks: SEEDS = 100
eviction-walks: STEPS = 400
eviction-walks: SEED = 1000
eviction-walks: $(SYNCED) ## random walks of schedulers that evict, for long (SEEDS=100 STEPS=400, SEED=1000 the first)
	PYTHONHASHSEED=0 .venv/bin/python -m tests.machine.evictions.many_walks $(SEEDS) $(STEPS) $(SEED)

fuzz: N = 0
fuzz: SEED = 0
fuzz: $(SYNCED) hook ## random input for decoders, HTTP, pods, manifests (N=100000, SEED=7, FUZZER=requests, AT=123)
	.venv/bin/python -m tests.fuzz --number $(N) --seed $(SEED) $(if $(FUZZER),--fuzzer $(FUZZER)) $(if $(AT),--at $(AT))

verify: checks test hook-test e2e ## every check that CI runs (root, for e2e)

console-test: $(SYNCED) ## the console's page in a real Chromium (apt-get install chromium npm)
	.venv/bin/pytest -m chromium -s $(ARGS) tests/console

##@ Measure

bench: $(SYNCED) ## measure filter against its budget
	.venv/bin/python benchmarks/filter.py $(ARGS)
