# Everything from a fresh checkout: `make demo` and `make test` set up .venv on their own. PYTHON=python3.12 make test
# takes another interpreter (3.11 to 3.13).
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
JUDGES := .judges
DOCS := .docs
DEMO := demo
INSTANCE := ring/bert-large-36
# what `make test` and `make quick` pass to pytest; PYTEST_ARGS="tests/report" runs a part. One worker more than two
# cores, as some tests wait
WORKERS ?= 3
PYTEST_ARGS ?=
# each worker begins with its own share of the files, so that what a file or family makes once is made by one worker;
# who is done takes over tests from the other
PYTEST = $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
# exact versions with their hashes; setuptools is among them, so that nothing else is fetched to build chipmap
# byte code is left to the imports: most modules of the solvers' packages are never imported
INSTALL := $(PIP) install --no-compile --require-hashes --requirement
EDITABLE := $(PIP) install --no-deps --no-build-isolation --editable .
LOCK := $(VENV)/lock/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
  --custom-compile-command "make lock"
# all families' programs, compiled once (kept on disk), before tests run side by side; a solve compiles its own
COMPILE := @$(BIN)/chipmap doctor --warm >/dev/null || true

# lint and the wheel's trial take one core each, and so does what is compiled before tests
SIDE_BY_SIDE = @$(MAKE) --no-print-directory --jobs=3 lint tests

# byte code is kept whatever the environment says: without it every process compiles the sources again
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help demo quick test long tests judges docs lint install wheel one-wheel versions lock clean

help:
	@echo "make demo   solve $(INSTANCE), print its gap, write plot and report to $(DEMO)/"
	@echo "make quick  ruff, mypy and the quick lane of the tests: about a minute"
	@echo "make test   ruff, mypy and the whole test suite: minutes"
	@echo "make long   the tests with all of their random cases, where make test takes some"
	@echo "make judges the tests against torch, accelerate, onnx, onnxruntime, JAX and Dask, in $(JUDGES): about half an hour at first"
	@echo "make docs   the pages as a site that works without network: site/index.html; built in $(DOCS)"
	@echo "make wheel  build the wheel, install and try it with every supported Python that is found"
	@echo "make versions  of these, what pyproject.toml's lowest and newest versions do: about two minutes"
	@echo "make lock   write requirements*.lock anew, with the latest versions that pyproject.toml allows"
	@echo "make clean  remove .venv, $(DEMO)/ and caches"

$(VENV)/made:
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(not (3, 11) <= v < (3, 14) and f"chipmap needs Python 3.11 to 3.13, but {sys.executable} is {v[0]}.{v[1]}: PYTHON=python3.12 make ...")'
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/installed: pyproject.toml requirements.lock | $(VENV)/made
	$(INSTALL) requirements.lock
	$(EDITABLE)
	@touch $@

$(VENV)/installed-dev: pyproject.toml requirements-dev.lock | $(VENV)/made
	$(INSTALL) requirements-dev.lock
	$(EDITABLE)
	@touch $@ $(VENV)/installed

$(VENV)/compiled: $(VENV)/installed-dev
	$(COMPILE)
	@touch $@

install: $(VENV)/installed

demo: $(VENV)/installed
	mkdir -p $(DEMO)
	$(BIN)/chipmap solve $(INSTANCE) --time-limit 60 --out $(DEMO)/bert-large-36
	$(BIN)/chipmap plot $(INSTANCE) $(DEMO)/bert-large-36 --out $(DEMO)/bert-large-36/plot.png
	$(BIN)/chipmap report $(DEMO) --html $(DEMO)/report.html

test: $(VENV)/installed-dev
	$(SIDE_BY_SIDE) $(if $(PYTEST_ARGS),,one-wheel)

quick: $(VENV)/installed-dev
	$(SIDE_BY_SIDE) LANE=--quick

# before a release, and after a change of a rule or an engine: tests/lanes.py
long: $(VENV)/compiled
	CHIPMAP_TESTS=long $(PYTEST) $(PYTEST_ARGS)

tests: $(VENV)/compiled
	$(PYTEST) $(LANE) $(PYTEST_ARGS)

# an environment of its own: torch first, as others would bring a build of it that is many times larger
$(JUDGES)/installed: pyproject.toml requirements-dev.lock
	$(PYTHON) -m venv $(JUDGES)
	$(JUDGES)/bin/python -m pip --disable-pip-version-check --quiet install torch==2.13.0
	$(JUDGES)/bin/python -m pip --disable-pip-version-check --quiet install --require-hashes --requirement requirements-dev.lock
	$(JUDGES)/bin/python -m pip --disable-pip-version-check --quiet install --no-build-isolation --editable ".[judges]"
	@touch $@

judges: $(JUDGES)/installed
	$(JUDGES)/bin/python -m benchmarks.judges $(JUDGES_ARGS)

# Sphinx and its theme; chipmap itself is read where it lies
$(DOCS)/installed: requirements-docs.lock
	$(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/python -m pip --disable-pip-version-check --quiet install --require-hashes --requirement requirements-docs.lock
	@touch $@

# any warning, a link to nowhere among them, is an error
docs: $(DOCS)/installed
	$(DOCS)/bin/python -m sphinx --quiet --fail-on-warning --keep-going -c docs/site -d $(DOCS)/doctrees . site

lint: $(VENV)/installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# builds dist/chipmap-….whl
wheel: $(VENV)/installed-dev
	$(BIN)/python -m tests.wheel

# of these, one Python is a part of `make test`
one-wheel: $(VENV)/installed-dev
	$(BIN)/python -m tests.wheel --one

# a part of `make wheel`
versions: $(VENV)/installed-dev
	$(BIN)/python -m tests.wheel --limits

lock: | $(VENV)/made
	$(PYTHON) -m venv $(VENV)/lock
	$(VENV)/lock/bin/python -m pip --quiet --disable-pip-version-check install uv
	$(LOCK) --group build pyproject.toml --extra dev --extra gurobi --extra metis --extra onnx --extra relaxation --output-file requirements-dev.lock
	$(LOCK) --group build pyproject.toml --constraint requirements-dev.lock --output-file requirements.lock
	$(LOCK) --group docs --constraint requirements-dev.lock --output-file requirements-docs.lock

clean:
	rm -rf $(VENV) $(JUDGES) $(DOCS) $(DEMO) site build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
