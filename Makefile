# Each command does all set-up: `make` judges real libraries; `make test` passes the tests in minutes, `make test-long` the rest.
# Needs only Python 3.11+ with pip, make, git and g++.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
JOBS ?= 2
# `make coverage` adds to this file; what tests start as processes is not measured.
COVERAGE := .coverage.json
PYTEST := $(BIN)/python -m pytest -n $(JOBS) --dist worksteal -q --durations=10

# Tests start hundreds of processes: with modules compiled once each starts in half the time.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: judge site test test-long test-all test-deep test-browser lint check-tests coverage docs sweep bench peers wheel clean

judge: $(VENV)/light.done ## judge the libraries that need neither a GPU nor torch, at the quick level
	@$(BIN)/mxspec check --quick --jobs $(JOBS) mxspec gfloat mlx gguf ml_dtypes; test $$? -le 1
	@$(MAKE) --no-print-directory site

site: $(VENV)/light.done ## all committed results as a static site: open build/site/index.html
	@$(BIN)/mxspec site reports --docs docs -o build/site

test: $(VENV)/test.done ## style, types, imports and the quick tests: about 4 minutes on two cores
	@$(MAKE) --no-print-directory -j2 lint check-tests

test-long: $(VENV)/test.done ## the other tests, of the slowest a share that changes with the seed, about 10 minutes
	$(PYTEST) -m long

test-all: $(VENV)/test.done ## every parameter set of every test; hours
	$(PYTEST) -m ""

test-deep: $(VENV)/test.done ## the tests of Hypothesis with 2,000 examples each; about an hour
	MXSPEC_HYPOTHESIS=deep $(BIN)/python -m pytest -n $(JOBS) --dist worksteal -q -m hypothesis

test-browser: $(VENV)/test.done ## the pages in Chromium: the one that MXSPEC_BROWSER names, or on the path, or playwright's own
	$(BIN)/python -m pip install --quiet playwright
	command -v "$${MXSPEC_BROWSER:-chromium}" google-chrome >/dev/null || $(BIN)/python -m playwright install --with-deps chromium
	$(BIN)/python -m pytest -q tests/browser

lint: $(VENV)/test.done
	$(BIN)/ruff check .
	$(BIN)/ruff format --check --quiet .
	$(BIN)/mypy
	$(BIN)/lint-imports
	@$(BIN)/python -m tests.budget

check-tests: $(VENV)/test.done
	$(PYTEST) -m "not long"

coverage: $(VENV)/test.done ## the tests of both commands, and what they did not reach
	@rm -f $(COVERAGE)
	$(PYTEST) -p tests.measured -m "not long"
	$(PYTEST) -p tests.measured -m long
	@$(BIN)/slipcover --merge $(COVERAGE) --out $(COVERAGE) --skip-covered

docs: $(VENV)/test.done ## API pages from docstrings, in build/docs
	$(BIN)/python -m pip install --quiet --group docs
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going -b html docs/api build/docs

sweep: $(VENV)/test.done ## all 2^32 float32 inputs of every function; resumable, takes hours
	$(BIN)/python -m mxspec_lab sweep --out reports/sweeps --jobs $(JOBS)

bench: $(VENV)/test.done
	$(BIN)/python -m mxspec_lab bench --json reports/bench/cpu.json

peers: $(VENV)/light.done ## the libraries on torch, each in its own environment, and layouts in one; results under reports/peers
	$(BIN)/python tests/peers/run_peers.py
	$(PYTHON) tests/peers/layouts/run_layouts.py

wheel: $(VENV)/test.done ## wheel from the sdist, installed and tried in an empty environment
	$(BIN)/python tests/packaging/try_wheel.py

clean:
	rm -rf $(VENV) .venv-* dist build $(COVERAGE)

$(VENV)/pip.done:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	@touch $@

$(VENV)/light.done: $(VENV)/pip.done pyproject.toml
	$(BIN)/python -m pip install --quiet --editable ".[light,site]"
	@touch $@

$(VENV)/test.done: $(VENV)/light.done
	$(BIN)/python -m pip install --quiet --group test --group lint --group build
	@touch $@
