# Everything a person needs: `make train` and `make test` set up .venv by themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin


.PHONY: help train setup test lint format types unit bench clean

help:
	@echo "make train   set up $(VENV), then train a model that classifies and segments; two and a half minutes"
	@echo "make test    set up $(VENV), then lint, type-check and test (what CI runs)"
	@echo "make setup   only set up $(VENV)"
	@echo "make format  rewrite the sources in the project's format"
	@echo "make bench   measure solvers and shapes beside others; ten minutes on a quiet machine"
	@echo "make clean   remove $(VENV) and caches"

train: $(VENV)/.installed
	$(BIN)/mdeq train

setup: $(VENV)/.installed-dev

# The package alone, or with an extra.
$(VENV)/.installed $(VENV)/.installed-dev $(VENV)/.installed-bench: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and \
		"mdeq needs Python 3.11 or newer, this is " + sys.version.split()[0] + "; set PYTHON=/path/to/python3.11")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV), a minute or two"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
		-e ".$(if $(findstring -,$(@F)),[$(subst .installed-,,$(@F))])"
	@touch $@

test: lint types unit

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: setup
	$(BIN)/mypy

unit: setup
	$(BIN)/python -m pytest

bench: $(VENV)/.installed-bench
	$(BIN)/python benchmarks/broyden_overhead.py
	$(BIN)/python benchmarks/shapes.py

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis src/*.egg-info
