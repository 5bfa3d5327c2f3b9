# The front door. `make help` lists the targets.
PYTHON ?= python3
BIN := .venv/bin
export PYTHONDONTWRITEBYTECODE :=
PAPER := nine_jobs prediction_error ablation arrivals overhead

.PHONY: help setup quickstart test cluster cluster-down demo-kubernetes test-kubernetes test-kubernetes-smoke page openapi test-page test-page-smoke browser lint bench results bench-kubernetes
help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

setup: .venv/.ready  ## make .venv with everything that the project uses
.venv/.ready: pyproject.toml
	@echo "setting up .venv: downloads and installs Airflow and the rest, silently; it takes a few minutes"
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable . --group dev
	touch $@

quickstart: setup  ## a real Airflow, training jobs that grow and shrink, a summary (KEEP=1: leave the UI up)
	@exec $(BIN)/python scripts/quickstart/main.py

demo-kubernetes: setup  ## the quickstart with pods on a real Kubernetes; a pod gets lost on the way
	@exec $(BIN)/python scripts/quickstart/main.py --kubernetes

test: setup  ## pass the tests
	$(BIN)/python -m pytest -n 2 --dist loadgroup

cluster: setup  ## start a real Kubernetes on this machine for tests (Linux, root; the first time builds it from source)
	@$(BIN)/python -m tests.cluster.testbed up

cluster-down: setup  ## take it away; nothing is left
	@$(BIN)/python -m tests.cluster.testbed down

test-kubernetes: setup  ## pass the tests that need a Kubernetes: start one, use it, take it down
	$(BIN)/python -m pytest tests/kubernetes

test-kubernetes-smoke: setup  ## the least of them: a job, a resize, a lost pod, the chart (under 10 minutes with a cold build)
	$(BIN)/python -m pytest tests/kubernetes -m smoke

page:  ## build the page's bundle out of its sources (needs node 20 and npm)
	cd plugins/optimus_airflow/ui && npm ci --no-audit --no-fund && npm test && npm run build

openapi: setup  ## write docs/openapi.json anew
	AIRFLOW_HOME=$$(mktemp -d) PYTHONPATH=plugins $(BIN)/python docs/write_openapi.py

test-page: setup browser  ## look at the page in Chromium on a real Airflow (SHOTS=1: write docs/images anew; needs node and npm)
	$(BIN)/python -m pytest tests/page

test-page-smoke: setup browser  ## the least of it: both themes, one view each, the API's answers to all roles (under 3 minutes)
	$(BIN)/python -m pytest tests/page -m smoke

browser:
	cd tests/page && npm ci --no-audit --no-fund
	@command -v chromium >/dev/null || apt-get install -y --no-install-recommends chromium \
		|| npm install --prefix tests/page --no-save --no-audit --no-fund @sparticuz/chromium@143.0.4 \
		|| { echo "chromium is missing: install it, as root: apt-get install chromium"; exit 1; }

lint: setup  ## ruff, mypy, import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	MYPYPATH=plugins $(BIN)/mypy scripts
	PYTHONPATH=plugins $(BIN)/lint-imports

bench: setup browser  ## print the benchmarks, each against a baseline of the same run; 1 if any misses its goal
	@missed=0; \
	for each in benchmarks/*.py; do PYTHONPATH=. $(BIN)/python $$each || missed=1; done; \
	for each in $(PAPER); do PYTHONPATH=. $(BIN)/python -m benchmarks.paper.$$each || missed=1; done; \
	exit $$missed

results: setup  ## run the paper's experiments and write docs/results.md with its plots (about ten minutes)
	PYTHONPATH=. $(BIN)/python -m benchmarks.paper.results

bench-kubernetes: setup  ## the same for what needs a Kubernetes
	for each in benchmarks/kubernetes/[a-z]*.py; do PYTHONPATH=.:plugins $(BIN)/python $$each || exit 1; done
