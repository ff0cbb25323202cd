# Every target does its own set-up, in .venv; `make help` lists them.
#
# PYTHON=python3.12   the interpreter for the environment (default: the first of 3.11 to 3.13 found)
# VENV=path           the environment's place
# ARGS=...            more arguments for pytest, `rayfed run` or the benchmark

VENV ?= .venv
PYTHON ?=
ARGS ?=
BIN = $(VENV)/bin
SETUP = VENV="$(VENV)" PYTHON="$(PYTHON)" scripts/setup.sh
ALL_EXTRAS = arrow,dev,docs,examples,zstd
SUITES = $(wildcard tests/unit tests/contract tests/integration tests/e2e)
CHECKED = $(wildcard src tests examples bench scripts)
# One worker per core, few enough to start quickly. Without these: make test WORKERS=
WORKERS ?= -n auto --maxprocesses=8 --dist=worksteal

.PHONY: help setup setup-demo test lint pytest docs demo soak bench bench-ray bench-flower \
	bench-transport format clean test-floors test-second-python
# `make -j` must not mix the parts' output, nor install twice at once.
.NOTPARALLEL:

help:
	@echo "make demo     train the 1,000-party digits model and plot it"
	@echo "make test     lint, types, import contracts, docs and tests: what CI runs"
	@echo "make setup    the environment for work on this repository, in $(VENV)"
	@echo "make lint     ruff, mypy, import-linter"
	@echo "make pytest   the tests alone"
	@echo "make docs     the documentation, in site/"
	@echo "make soak     the long seeded suites in full"
	@echo "make bench    measurements, one JSON line each"
	@echo "make bench-ray, make bench-flower   beside Ray and Flower, in environments of their own"
	@echo "make bench-transport     the link between parties beside gRPC, Flight and a copy in C"
	@echo "make format   ruff's format and safe fixes"
	@echo "make test-floors         the tests with the oldest dependencies that pyproject names"
	@echo "make test-second-python  the tests on the other end of the supported Pythons, if found"
	@echo "make clean    remove what was built, the environment included"

setup:
	@$(SETUP) $(ALL_EXTRAS)

# The demo alone needs neither linters nor docs. A full environment serves it too.
setup-demo:
	@if [ -f "$(VENV)/.stamps/$(ALL_EXTRAS)" ]; then $(SETUP) $(ALL_EXTRAS); \
	else $(SETUP) examples; fi

test: lint docs pytest

lint: setup
	$(BIN)/ruff check $(CHECKED)
	$(BIN)/ruff format --check $(CHECKED)
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache --no-logo

pytest: setup
	$(BIN)/python -m pytest $(SUITES) $(WORKERS) $(ARGS)

docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

demo: setup-demo
	$(BIN)/rayfed run examples/digits_fedavg.py --plot digits.png $(ARGS)
	@echo "The plot: $(CURDIR)/digits.png"

soak: setup
	SOAK=1 $(BIN)/python -m pytest $(SUITES) -m soak --timeout=3600 $(WORKERS) $(ARGS)

bench: setup
	$(BIN)/python -m bench.simulation $(ARGS)

# Some 500 MB each, in RAYFED_BENCH_ENVS (default ~/.cache/rayfed-bench).
bench-ray: setup
	$(BIN)/python -m bench.comparisons ray

bench-flower: setup
	$(BIN)/python -m bench.comparisons flower

# In an environment of its own too: the package itself needs no gRPC.
bench-transport:
	@VENV=.venv-bench PYTHON="$(PYTHON)" scripts/setup.sh arrow,zstd
	@.venv-bench/bin/python -m pip install -q --disable-pip-version-check --no-input \
		-r bench/transport/requirements.txt
	.venv-bench/bin/python -m bench.transport $(ARGS)

format: setup
	$(BIN)/ruff check --fix $(CHECKED)
	$(BIN)/ruff format $(CHECKED)

test-floors:
	@mkdir -p build
	@scripts/pick_python.sh oldest > build/python-oldest
	@$$(cat build/python-oldest) scripts/floors.py > build/floors.txt
	@VENV=.venv-floors PYTHON=$$(cat build/python-oldest) PIP_CONSTRAINTS=build/floors.txt \
		scripts/setup.sh arrow,examples,test,zstd
	.venv-floors/bin/python -m pytest $(SUITES) $(ARGS)

test-second-python: setup
	@scripts/second_python.sh $(BIN)/python .venv-second arrow,examples,test,zstd \
		-- $(SUITES) $(WORKERS) $(ARGS)

clean:
	rm -rf build dist site .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	rm -rf .venv .venv-bench .venv-floors .venv-second digits.png
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
