# All targets run in .venv, which they create first.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt

.DEFAULT_GOAL := help
.PHONY: help demo test types kernels library jobs faults slow fuzz soak bench docs clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-8s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

demo: .venv/.stamp-run  ## install, then explain customers of the embedded data
	@$(BIN)/robustcf demo

test: .venv/.stamp-test  ## install, then lint, type-check and test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@$(MAKE) --no-print-directory --jobs 2 types kernels
	@$(MAKE) --no-print-directory --jobs 2 --keep-going jobs library

types:
	$(BIN)/mypy

kernels:  # compile the kernels once, so that not every test process compiles them
	@$(BIN)/robustcf explain synthetic-credit --row 804 --trees 10 --no-menu >/dev/null

library:  # leaves the first core to the jobs, which need about one
	nice $(BIN)/python -m pytest --numprocesses 2 --dist worksteal --ignore tests/jobs --ignore tests/faults

jobs:  # prints everything at its end, apart from what the library prints
	@log=$$(mktemp) && trap 'cat "$$log"; rm -f "$$log"' EXIT && $(BIN)/python -m pytest tests/jobs >"$$log" 2>&1

faults: .venv/.stamp-test  ## inject every fault once into audits on a real Ray with several nodes
	$(BIN)/python -m pytest tests/faults

slow: .venv/.stamp-test  ## run the tests that take minutes
	$(BIN)/python -m pytest -m slow --timeout 7200

fuzz: .venv/.stamp-test  ## fuzz the parsers, SECONDS=1800 each
	@$(PIP) -e '.[test,fuzz]' && $(BIN)/python -m tests.fuzz.fuzz $(or $(SECONDS),1800)

soak: .venv/.stamp-test  ## run audits with faults for MINUTES=30 and record memory
	@$(BIN)/python -m robustcf_benchmarks.soak $(or $(MINUTES),30)

bench: .venv/.stamp-run  ## compare the speed of this version with its peers
	@$(BIN)/robustcf bench

docs: .venv/.stamp-run  ## build the manual as web pages in site/
	@$(PIP) -e '.[all,docs]'
	@$(BIN)/python -m typer robustcf_jobs.cli utils docs --name robustcf --title Commands --output docs/commands.md
	@$(BIN)/mkdocs build --quiet --strict

clean:  ## remove .venv, caches and build products
	rm -rf .venv build dist site *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +

.venv/.stamp-python:
	@command -v "$(PYTHON)" >/dev/null && "$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "robustcf needs Python 3.11 or newer, but '$(PYTHON)' is older or missing; use: make PYTHON=python3.12" >&2; exit 1; }
	@"$(PYTHON)" -m venv .venv
	@touch $@

.venv/.stamp-run: .venv/.stamp-python pyproject.toml constraints.txt
	@echo "installing robustcf into .venv"
	@$(PIP) -e '.[all]'
	@touch $@

.venv/.stamp-test: .venv/.stamp-python pyproject.toml constraints.txt
	@echo "installing robustcf and its test tools into .venv"
	@$(PIP) -e '.[test]'
	@touch $@
