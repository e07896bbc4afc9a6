# The commands of this repository. A fresh machine needs Python >= 3.11 and make, nothing else.
#
#   make lab        install into .venv and open JupyterLab on the quickstart notebook
#   make test       install what the tests need and run all of them, small counts (minutes)
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
export PIP_DISABLE_PIP_VERSION_CHECK := 1

LATEST ?=
VENV := $(if $(LATEST),.venv-latest,.venv)
BIN := $(CURDIR)/$(VENV)/bin
export PATH := $(BIN):$(PATH)
ARGS ?=
PART ?=
PYTHONS ?=
QUICKSTART := notebooks/quickstart.ipynb

# What decides whether an installed environment is still right. The built panel is in the list
# because an editable install copies it.
MADE_FROM := pyproject.toml constraints.txt onetool_ipy/_version.py onetool_ipy/labextension/package.json
# $(call PIN,FILE): the variables that let pip, also where it builds our own package, take the versions in a file.
PIN = $(if $(LATEST),,PIP_CONSTRAINT=$(1) PIP_BUILD_CONSTRAINT=$(1))
PIP := $(call PIN,constraints.txt) $(BIN)/python -m pip install --quiet $(if $(LATEST),--upgrade --upgrade-strategy eager)
NODE_MODULES := labextension/node_modules/.package-lock.json
NODE_PROGRAMS := tests/node/node_modules/.package-lock.json
EXAM := tests/node/exam/node_modules/.package-lock.json
SERVERS := .venv-servers/.servers
CLIENTS := .venv-clients/.clients
FRAMEWORKS := .venv-frameworks/.frameworks
SITE := .venv-site/.site
TESTED := $(VENV)/.test browser strace $(NODE_MODULES) $(NODE_PROGRAMS) $(EXAM) $(SERVERS) $(CLIENTS) $(FRAMEWORKS) $(SITE)

.PHONY: help lab test check soak soak-load bench shots build-lab docs map mutants site lock latest browser node strace

help:
	@sed -n 's/^#   //p' Makefile

lab: $(VENV)/.lab
	$(BIN)/jupyter lab --LabApp.default_url=/lab/tree/$(QUICKSTART) $$([ "$$(id -u)" != 0 ] || echo --allow-root) $(ARGS)

test: $(TESTED)
	.ci/tests $(BIN)/python $(ARGS)

check: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

soak: $(TESTED)
	PART="$(PART)" PYTHONS="$(PYTHONS)" .ci/soak $(ARGS)

soak-load: $(TESTED)
	PART=load .ci/soak

bench: .venv-bench/.bench
	.ci/bench $(ARGS)

shots: $(VENV)/.test browser
	$(BIN)/python -m tests.e2e.pictures docs/screens

build-lab: $(NODE_MODULES)
	cd labextension && npm run build
	touch onetool_ipy/labextension/package.json

docs: $(VENV)/.test
	$(BIN)/python docs/make_reference.py

# The notebooks are run for their outputs, as somebody who is new: with a home and a state of their own.
site: $(VENV)/.test $(SITE)
	.ci/site $(BIN)

map: $(VENV)/.test
	$(BIN)/python -m tests.code_map $(ARGS)

mutants: $(TESTED)
	$(BIN)/python -m tests.mutants $(ARGS)

lock: .venv-lock/bin/uv
	.ci/lock .venv-lock/bin/uv

# --- environments ---------------------------------------------------------------------------------

$(VENV)/bin/python:
	.ci/venv $(VENV) $(PYTHON)

$(VENV)/.lab: $(MADE_FROM) $(if $(LATEST),latest) | $(VENV)/bin/python
	@echo "Installing onetool-ipy into $(VENV) (a few minutes the first time) ..."
	$(PIP) --editable '.[programs]'
	@touch $@

$(VENV)/.test: $(MADE_FROM) $(if $(LATEST),latest) | $(VENV)/bin/python
	@echo "Installing onetool-ipy and its test tools into $(VENV) (a few minutes the first time) ..."
	$(PIP) --editable '.[test]'
	@touch $@ $(VENV)/.lab

.venv-bench/.bench: $(MADE_FROM)
	[ -x .venv-bench/bin/python ] || .ci/venv .venv-bench $(PYTHON)
	@echo "Installing onetool-ipy and the peers into .venv-bench ..."
	.venv-bench/bin/python -m pip install --quiet --editable '.[bench]' || { echo "LEFT OUT: the peers, since they could not be installed."; .venv-bench/bin/python -m pip install --quiet --editable .; }
	@touch $@

.venv-lock/bin/uv:
	.ci/venv .venv-lock $(PYTHON)
	.venv-lock/bin/python -m pip install --quiet 'uv>=0.9'

# --- what pip cannot bring -----------------------------------------------------------------------

browser:
	@.ci/need browser

strace:
	@.ci/need strace

node: $(VENV)/.test
	@$(call PIN,constraints.txt) .ci/need node

$(NODE_MODULES): labextension/package-lock.json | node
	cd labextension && npm ci --ignore-scripts --no-audit --no-fund
	@touch $@

$(NODE_PROGRAMS): tests/node/package-lock.json | node
	cd tests/node && npm ci --ignore-scripts --no-audit --no-fund
	@touch $@

# Not `npm ci`: it refuses a lock file without the builds for other machines that a registry may lack.
$(EXAM): tests/node/exam/package-lock.json | node
	cd tests/node/exam && npm install --no-save --ignore-scripts --no-audit --no-fund
	@touch $@

$(SERVERS): tests/servers.txt tests/constraints-servers.txt
	[ -x .venv-servers/bin/python ] || .ci/venv .venv-servers $(PYTHON)
	@echo "Installing the MCP servers that the tests talk to into .venv-servers ..."
	.venv-servers/bin/python -m pip install --quiet --requirement tests/servers.txt --constraint tests/constraints-servers.txt
	@touch $@

$(CLIENTS): tests/clients.txt tests/clients-alone.txt tests/constraints-clients.txt
	[ -x .venv-clients/bin/python ] || .ci/venv .venv-clients $(PYTHON)
	@echo "Installing the MCP client and Voila for the tests into .venv-clients ..."
	.venv-clients/bin/python -m pip install --quiet --requirement tests/clients.txt --constraint tests/constraints-clients.txt
	.venv-clients/bin/python -m pip install --quiet --no-deps --requirement tests/clients-alone.txt
	@touch $@

# The frameworks see the packages of the tests' environment, so that few are installed twice.
$(FRAMEWORKS): tests/frameworks.txt tests/constraints-frameworks.txt | $(VENV)/.test
	.ci/lend .venv-frameworks $(VENV)
	@echo "Installing the agent frameworks that the tests bridge to into .venv-frameworks ..."
	.venv-frameworks/bin/python -m pip install --quiet --requirement tests/frameworks.txt --constraint tests/constraints-frameworks.txt
	@touch $@

$(SITE): tests/site.txt tests/constraints-site.txt
	[ -x .venv-site/bin/python ] || .ci/venv .venv-site $(PYTHON)
	@echo "Installing what builds the site into .venv-site ..."
	.venv-site/bin/python -m pip install --quiet --requirement tests/site.txt --constraint tests/constraints-site.txt
	@touch $@
