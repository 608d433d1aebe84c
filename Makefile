# `make demo` tunes a Spark job on a fresh machine, `make test` runs all tests. Each target sets up what it needs.
SHELL := /bin/bash
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# The tests of a file share a process. Spark tests wait more than they compute: run three files at a time, because each
# process has one Spark session that its tests share.
SIDE_BY_SIDE := -n auto --maxprocesses 4 --dist loadfile
THREE_AT_A_TIME := -n 3 --dist loadfile
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PYTHONDONTWRITEBYTECODE := 1

.PHONY: help setup demo test test-fast check words format bench experiments docs notebook constraints clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 14

setup: $(READY)  ## make a virtual environment in .venv with all packages

$(READY): pyproject.toml constraints.txt scripts/python.sh
	@python=$$(scripts/python.sh) && { test -x $(BIN)/python || "$$python" -m venv $(VENV); }
	@echo "installing into $(VENV) (a few minutes, once)"
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

demo: $(READY)  ## tune a real Spark job on this machine, in about three minutes
	@scripts/java.sh
	@$(BIN)/autotrascale tune configs/wordcount.yaml

test: $(READY)  ## run all tests, the fast ones first
	@scripts/java.sh
	@scripts/redis.sh install
	@scripts/influxdb.sh build
	@scripts/kafka.sh fetch
	@scripts/chromium.sh install
	$(BIN)/python -m pytest -m 'not spark' $(SIDE_BY_SIDE)
	$(BIN)/python -m pytest -m spark $(THREE_AT_A_TIME) --durations=12

test-fast: $(READY)  ## run the tests that need no Spark
	@scripts/chromium.sh install
	$(BIN)/python -m pytest -m 'not spark' $(SIDE_BY_SIDE)

check: $(READY)  ## check format, lint, types and plain words
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python scripts/check_words.py

words: $(READY)  ## measure how plainly the code and the documents are written
	$(BIN)/python scripts/check_words.py --worst 20

format: $(READY)  ## correct the format and simple lint errors
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(READY)  ## run all benchmarks and write their results to out/bench.json
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,peers]'
	@scripts/java.sh
	@scripts/chromium.sh install
	$(BIN)/python -m benchmarks.run

experiments: $(READY)  ## reproduce the papers' figures, simulated, in out/experiments.html
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,peers]'
	$(BIN)/python -m experiments.run
	$(BIN)/python -m experiments.report

docs: $(READY)  ## build the documentation site in out/site
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,docs]'
	$(BIN)/python scripts/reference.py
	$(BIN)/python scripts/docs.py
	$(BIN)/mkdocs build --strict --quiet

notebook: $(READY)  ## run the example notebook and keep its outputs
	$(BIN)/python scripts/notebook.py examples/first_steps.ipynb

constraints: $(READY)  ## pin the installed versions in constraints.txt
	@{ echo "# Exact versions that the tests pass with: pip install -c constraints.txt. Written by 'make constraints'."; \
	   $(BIN)/python -m pip freeze --exclude-editable | grep -v ' @ '; } > constraints.txt

clean:  ## remove everything that was built here
	rm -rf $(VENV) out build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis spark-warehouse
