# The commands of this repository. A fresh machine needs Python >= 3.11 and make, nothing else; without make,
# `python tasks.py lab` and `python tasks.py test` do the same.
#
#   make lab        install into .venv and open JupyterLab on the quickstart notebook
#   make test       install what the tests need and run those that a person runs: every room, every screen once
#   make test-all   every test, and which of them are slow
#   make test-windows   the tests of every room on Windows' own Python, under Wine (tests/windows)
#   make check      ruff, mypy --strict, import-linter
#   make soak       every test with full counts on every Python >= 3.11 that is found, and soak-load (hours)
#   make soak-load  all tests while two busy loops run beside them; TURNS=3 runs them three times in a row
#   make bench      our speed against the peers', side by side, in .venv-bench; writes docs/benchmarks.md
#   make shots      the pictures of the README, into docs/screens
#   make build-lab  rebuild the screens into onetool_ipy/ui, and the JupyterLab panel into onetool_ipy/labextension
#   make docs       write docs/reference.md anew from the code
#   make site       the pages and notebooks as a site with search, in build/site
#   make lock       write constraints.txt anew: the newest versions that fit pyproject.toml
#   make mutants    change the package at 100 random places, and see whether the tests notice
#   make map        figures of the source tree: lines, code proper, modules per call, helpers with one use, circles, ...
#
# Options: ARGS="..." goes to pytest, jupyter lab or map (ARGS=-v names what it counts), PYTHON=... chooses the
# interpreter. `make soak PART=full` does one part of it: full, once or load; PYTHONS="3.12 3.13" takes just these (see
# .ci/soak).
#
# `make lab` and `make test` install the versions in constraints.txt. `make test LATEST=1` installs the newest ones that
# pyproject.toml allows, into an environment of its own, .venv-latest.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# Bytecode is part of what a user gets, and of how fast it starts.
unexport PYTHONDONTWRITEBYTECODE
# A virtual environment that is active in the caller's shell, or its PYTHONPATH, is none of ours.
unexport PYTHONPATH VIRTUAL_ENV
export LATEST PYTHON

LATEST ?=
BIN := $(CURDIR)/$(if $(LATEST),.venv-latest,.venv)/bin
export PATH := $(BIN):$(PATH)
ARGS ?=
PART ?=
PYTHONS ?=
# The environments are made by tasks.py, which knows when one is still right.
TASKS := .ci/python tasks.py

.PHONY: help lab test test-all test-windows check soak soak-load bench shots build-lab docs map mutants site lock

help:
	@sed -n 's/^#   //p' Makefile

lab:
	@$(TASKS) lab $(ARGS)

test:
	@$(TASKS) test $(ARGS)

test-all:
	@$(TASKS) test-all $(ARGS)

test-windows:
	@tests/windows/run $(ARGS)

check:
	@$(TASKS) install test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

soak:
	@$(TASKS) install all
	PART="$(PART)" PYTHONS="$(PYTHONS)" .ci/soak $(ARGS)

soak-load:
	PART=load .ci/soak

bench:
	@$(TASKS) install bench
	.ci/bench $(ARGS)

shots:
	@$(TASKS) install test
	@$(TASKS) need browser
	$(BIN)/python -m tests.e2e.pictures docs/screens

build-lab:
	@$(TASKS) install test panel
	cd labextension && npm run build

docs:
	@$(TASKS) install test
	$(BIN)/python docs/make_reference.py

# The notebooks are run for their outputs, as somebody who is new: with a home and a state of their own.
site:
	@$(TASKS) install test site
	.ci/site $(BIN)

map:
	@$(TASKS) install test
	$(BIN)/python -m tests.code_map $(ARGS)

mutants:
	@$(TASKS) install all
	$(BIN)/python -m tests.mutants $(ARGS)

lock:
	@$(TASKS) install uv
	.ci/lock .venv-uv/bin/uv
