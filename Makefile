# Python >= 3.11 is all that is needed, and a redis-server for `make test-redis`; everything lands in .venv.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
# Tests that start workers share what a file of them has started; those that break things at random go alone.
SIDE_BY_SIDE := tests/unit tests/integration
BY_FILE := tests/acceptance
ONE_BY_ONE := tests/chaos
PYTHONS := 3.11 3.12 3.13
# pyright --verifytypes takes the first python on the PATH and listens to nothing else.
IN_VENV := PATH="$(CURDIR)/$(BIN):$$PATH"

.DEFAULT_GOAL := help
.PHONY: help install test test-every test-redis docs-test lint format types contracts clean

help: ## Show the targets.
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 14

install: $(STAMP) ## Make .venv with tenxgraph and the developers' tools.

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "tenxgraph needs Python 3.11 or newer, %s is %s: run make PYTHON=python3.12" % (sys.executable, sys.version.split()[0]))'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --editable . --group dev
	@touch $@

test: $(STAMP) ## Run the unit, integration and acceptance tests, and the short chaos.
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) -n 2 -m "not redis_server" $(PYTEST_ARGS)
	$(BIN)/python -m pytest $(BY_FILE) -n 2 --dist loadfile -m "not redis_server" $(PYTEST_ARGS)
	$(BIN)/python -m pytest $(ONE_BY_ONE) -m "not redis_server" $(PYTEST_ARGS)

test-every: export EVERY_COMBINATION = 1
test-every: test ## The same with each combination of what `make test` takes in turns.

test-redis: $(STAMP) ## Run the tests that need a redis-server on the PATH.
	$(BIN)/python -m pytest tests/integration -m redis_server -n 2 $(PYTEST_ARGS)

docs-test: $(STAMP) ## Run every Python block of the README and docs/.
	$(BIN)/python -m pytest tests/docs $(PYTEST_ARGS)

lint: $(STAMP) ## Check style and formatting.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(STAMP) ## Format and mend what can be mended.
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

types: $(STAMP) ## mypy --strict over everything for each Python, pyright over the public API.
	printf '%s\n' $(PYTHONS) | xargs -P 2 -I{} $(BIN)/mypy --python-version {}
	$(IN_VENV) pyright
	$(IN_VENV) pyright --verifytypes tenxgraph --ignoreexternal

contracts: $(STAMP) ## Check which package imports which.
	$(BIN)/lint-imports

clean: ## Remove what the other targets made.
	rm -rf .venv build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis

demo: $(STAMP) ## Review a folder of texts on two workers, with progress; leaves nothing running.
	$(BIN)/python -m examples.review --workers 2

support: $(STAMP) ## A support agent on workers: looks orders up, asks a person, refunds; leaves nothing running.
	$(BIN)/python -m examples.support

dev: $(STAMP) ## Keep the demo's store, scheduler, workers and Flower up until Ctrl-C.
	$(BIN)/tenxgraph dev examples.review.graph:app --workers 2 --pool prefork --concurrency 2

chaos: $(STAMP) ## Kill, pause, cut, drop and double for minutes; CHAOS_ARGS="--seed 7 --threads 500 --steps sticky".
	$(BIN)/python -m tests.chaos $(CHAOS_ARGS)

model: $(STAMP) ## Drive the stores at random for 100,000 moves; MODEL_ARGS="--seed 7".
	$(BIN)/python -m tests.chaos.model $(MODEL_ARGS)

.PHONY: demo support dev chaos model

bench: $(STAMP) ## Measure all workloads beside plain Celery, in turns; ends with status 1 if a goal is missed.
	$(BIN)/python -m benchmarks

bench-quick: $(STAMP) ## The same for chains, round trips and long threads, in 3 minutes.
	$(BIN)/python -m benchmarks quick

.PHONY: bench bench-quick
