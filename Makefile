# The only front door. `make help` says what there is; everything sets up what it needs.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

BIN := .venv/bin
PY := $(BIN)/python
SOURCES := sdk spark services
SEED ?= 1
SEEDS ?= 200
MINUTES ?= 20
# (SECONDS is also a variable of bash, and not of make.)
SECONDS ?= 60
TARGET ?= all
# 2: one process for the tests that start real processes, and one beside it for all others. 0: all tests in pytest's own
# process, one after the other, as a debugger wants it.
TEST_PROCESSES ?= 2
ARGS ?=

# Spark's workers run on the venv's Python too, and a machine whose name does not resolve is no obstacle.
export PATH := $(CURDIR)/$(BIN):$(PATH)
export PYSPARK_PYTHON := $(CURDIR)/$(PY)
export PYSPARK_DRIVER_PYTHON := $(CURDIR)/$(PY)
export SPARK_LOCAL_IP ?= 127.0.0.1
# Containers often forbid Python to keep what it compiles. Then each process compiles its seven hundred modules itself, and a
# cluster takes half as long again to start.
unexport PYTHONDONTWRITEBYTECODE
WITH_JAVA = JAVA_HOME="$$($(PY) scripts/java_home.py)"; export JAVA_HOME;

.PHONY: help setup protos fmt lint types test sim planted torture fuzz bench demo image sbom audit e2e-kubernetes e2e-tracing
.PHONY: chart compat docs lock clean

help: ## Say what there is
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: .venv/.setup ## Make .venv from locks/dev.txt, and bring a Java if the machine has none
	@$(PY) scripts/java_home.py --install >/dev/null

.venv/.setup: locks/build.txt locks/dev.txt pyproject.toml scripts/setup.sh
	@scripts/setup.sh .venv locks/dev.txt --project
	@touch $@

.venv-protos/.setup: locks/protos.txt scripts/setup.sh
	@scripts/setup.sh .venv-protos locks/protos.txt
	@touch $@

.venv-oldest/.setup: locks/oldest.txt scripts/setup.sh
	@scripts/setup.sh .venv-oldest locks/oldest.txt
	@touch $@

protos: setup .venv-protos/.setup ## Generate the stubs from protos/
	@.venv-protos/bin/python scripts/gen_protos.py

fmt: setup ## Format, and fix what can be fixed
	@$(BIN)/ruff check --quiet --fix-only .
	@$(BIN)/ruff format .

lint: setup .venv-protos/.setup ## Style, directions of imports, stubs that match protos/
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports
	@.venv-protos/bin/python scripts/gen_protos.py --check

types: setup ## mypy --strict
	@$(BIN)/mypy $(SOURCES)

test: lint types ## lint, types, and every test (ARGS="-k name" picks some, TEST_PROCESSES=0 in one process)
	@$(WITH_JAVA) $(PY) -m pytest tests --numprocesses $(TEST_PROCESSES) $(ARGS)

sim: setup ## Simulate whole clusters: SEEDS=200 from SEED=1
	@$(PY) -m tests.simulation.run --seed $(SEED) --seeds $(SEEDS) $(ARGS)

planted: setup ## Show that simulation finds every planted bug
	@$(PY) -m tests.simulation.planted $(ARGS)

torture: setup ## Torture real processes: MINUTES=20 of faults, SEED, ARGS (root; docs/internals/torture.md)
	@$(PY) -m tests.blackbox --minutes $(MINUTES) --seed $(SEED) $(ARGS)

fuzz: setup ## Fuzz every parser that meets bytes from outside: SECONDS=60 for each TARGET=all (SEED, ARGS)
	@$(PY) -m tests.fuzz.run --seconds $(SECONDS) --target $(TARGET) --seed $(SEED) $(ARGS)

bench: setup ## Measure; results go to bench/out
	@$(WITH_JAVA) $(PY) -m bench $(ARGS)

demo: setup ## A cluster on this machine, and Spark writing to it exactly once (TRACE=1: traces in a Jaeger)
	@$(WITH_JAVA) $(PY) -m demo $(if $(TRACE),--trace) $(ARGS)

e2e-tracing: setup ## Ask a real Jaeger for the trace of a Spark micro-batch (ONCELOG_JAEGER_URL, or jaeger on PATH)
	@$(WITH_JAVA) $(PY) -m tests.e2e.tracing $(ARGS)

image: ## Build the container image (IMAGE=name:tag; BUILDER, BUILD_OPTIONS, IMAGE_TAR: scripts/image.sh)
	@scripts/image.sh $(IMAGE)

sbom: setup ## List what is in the image and the wheel (CycloneDX, into build/sbom), from the lock files
	@$(PY) -m scripts.sbom $(ARGS)

audit: setup ## Check pins, hashes and licences offline; versions against AUDIT_DB=folder or zip of OSV's advisories
	@$(PY) -m scripts.audit $(ARGS)

e2e-kubernetes: setup ## Try chart and image on the cluster of kubectl, under load (IMAGE=name:tag, ARGS="--etcd-image ...")
	@$(WITH_JAVA) $(PY) -m tests.e2e.kubernetes $(if $(IMAGE),--image $(IMAGE)) $(ARGS)

.venv-chart/.setup: locks/chart.txt scripts/setup.sh
	@scripts/setup.sh .venv-chart locks/chart.txt
	@touch $@

chart: setup .venv-chart/.setup ## Check the Helm chart with every helm, kubeconform, promtool there is (ARGS=--update)
	@$(PY) -m tests.chart.run $(ARGS)

compat: setup .venv-oldest/.setup ## Import the SDK on the oldest grpcio and protobuf; mix with the previous version, upgrade, roll back
	@PYTHONPATH=sdk .venv-oldest/bin/python scripts/import_sdk.py
	@$(PY) scripts/import_sdk.py
	@ONCELOG_COMPAT=full $(PY) -m pytest tests/compatibility -rs $(ARGS)

.venv-docs/.setup: locks/docs.txt scripts/setup.sh
	@scripts/setup.sh .venv-docs locks/docs.txt
	@touch $@

docs: .venv-docs/.setup ## Draw the documentation site into build/site: no warning, no dead link (`make test` checks its sources)
	@.venv-docs/bin/python -m scripts.build_site $(ARGS)

lock: setup ## Move every lock file to the newest versions
	@scripts/lock.sh

clean: ## Remove the venvs and everything built
	@rm -rf .venv .venv-protos .venv-oldest .venv-chart .venv-docs build dist bench/out .mypy_cache .ruff_cache .pytest_cache .hypothesis
