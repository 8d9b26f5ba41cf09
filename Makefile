# Two commands for a newcomer, `make demo` and `make test`: each sets up by itself what it needs.
# A fresh machine has Python 3.11 or later, Java 17 (tests and benchmarks) and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUNS ?= 1
CODE := $(wildcard src tests tools benchmarks)

.PHONY: help install setup demo test nemesis matrix sim lint format bench docs compiled jars kcat c-compiler go-clients clean
.DEFAULT_GOAL := help

help: ## show this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 14

install: $(VENV)/.ready compiled ## what using it needs: leaves .venv/bin/highwater

setup: c-compiler install jars kcat go-clients ## what tests and benchmarks need besides: Apache Kafka, other clients

$(VENV)/.ready: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed: make PYTHON=python3.11 ...")'
	@echo "setting up $(VENV), which takes a few minutes the first time"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@$(BIN)/python -m compileall -q src
	@touch $@

compiled: $(VENV)/.ready # the hot path in C, where there is a C compiler; up to date in a blink
	@$(BIN)/highwater compile --optional

jars: $(VENV)/.ready # Apache Kafka (real clients, benchmarks) and Spark's connector, in .tools/
	@$(BIN)/python tools/fetch_jars.py

kcat: # one of the real clients in tests/clients
	@command -v kcat >/dev/null || sh tools/install_packages.sh "its tests will fail" kcat

c-compiler: $(VENV)/.ready # and Python's headers: without them tests of compiled modules would be skipped
	@$(BIN)/python -c 'from highwater.compiled.building import what_is_missing as m; raise SystemExit(bool(m()))' \
		|| sh tools/install_packages.sh "brokers run in plain Python, and some tests are skipped" gcc python3-dev

go-clients: $(VENV)/.ready # franz-go and sarama, in .tools/
	@$(BIN)/python tools/build_go_clients.py

demo: $(VENV)/.ready ## producers, readers and Spark pipelines at work, brokers and a driver killed under them; two minutes
	@$(BIN)/python tools/fetch_jars.py spark || true
	@HIGHWATER_SPARK_JARS=$$(ls -d .tools/spark 2>/dev/null) $(BIN)/highwater demo

test: setup ## every test
	$(BIN)/pytest

nemesis: setup ## a cluster is broken at random for ten minutes while clients write and read
	$(BIN)/python tools/nemesis.py

matrix: setup ## the exactly-once sink under every kill, on one broker, on three, and on Apache Kafka; RUNS=3 runs it thrice
	for run in $$(seq $(RUNS)); do $(BIN)/pytest tests/matrix -m '' || exit 1; done

sim: $(VENV)/.ready ## 200 seeds of the simulator; SEEDS=10000 for a long run
	$(BIN)/python -m highwater_sim --seeds $(or $(SEEDS),200)

lint: $(VENV)/.ready ## ruff, mypy --strict, and who may import whom
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.ready ## let ruff rewrite what it can
	$(BIN)/ruff format $(CODE)
	$(BIN)/ruff check --fix $(CODE)

bench: setup ## against Apache Kafka in the same run; writes JSON and a table
	$(BIN)/python -m benchmarks

docs: $(VENV)/.ready ## write the generated parts of the documentation anew
	$(BIN)/python tools/generate_docs.py

clean: ## remove all that setup and tests left
	rm -rf $(VENV) .tools .bench build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
