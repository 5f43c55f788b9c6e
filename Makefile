# Every target sets up what it needs; a second run finds it ready.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test lint bench docs clean

PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

# Compiles the kernels, too, which takes most of a minute.
.venv/installed: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) --editable '.[files,batch]'
	touch $@

.venv/ready: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) --editable '.[files,batch,kafka,avro,spark,bench,dev]'
	touch .venv/installed $@

demo: .venv/installed
	$(BIN)/svead-stream demo --out results/demo

# Tests with brokers mostly wait, so more run at a time than there are processors in a small machine.
test: .venv/ready
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest -m without_jit tests/test_*.py -q -W ignore::RuntimeWarning -n 2 \
		--cov=svead_stream.kernels --cov-report=term-missing --cov-fail-under=98
	$(BIN)/python -m pytest -n 3 --dist loadfile

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: .venv/ready
	$(BIN)/python benchmarks/speed.py

docs: .venv/ready
	$(PIP) --editable '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

clean:
	find svead_stream -name "*.nb[ci]" -delete
	rm -rf svead_stream/kernels/objects .venv .pytest_cache .mypy_cache .ruff_cache .coverage results site
