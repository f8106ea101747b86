# make sweep: set-up and the main job · make test: set-up and the tests · make check: what CI runs
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# torch must not spin on busy cores; see docs/measurements.md.
export OMP_WAIT_POLICY ?= PASSIVE

.PHONY: sweep test check lint venv bench fuzz ui clean

sweep: venv ## sweep recall configurations over synthetic conversations and print the best
	$(BIN)/recall sweep

test: venv ## every test
	$(BIN)/python -m pytest

check: lint test ## lint, types, import rules, tests

lint: venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: venv ## pytest-benchmark: search, window, sweep
	$(BIN)/python -m pytest tests/benchmarks --benchmark-only --benchmark-columns=median,iqr,ops,rounds

fuzz: venv ## more than 100,000 inputs to everything that reads from outside; prints the count (FUZZ_SEED=N)
	FUZZ_SCALE=200 FUZZ_LEAST=100000 $(BIN)/python -m pytest tests/fuzz --hypothesis-seed=$${FUZZ_SEED:-$$(date +%s)}

ui: venv ## look at the results in MLflow
	$(BIN)/mlflow ui --backend-store-uri "$${MLFLOW_TRACKING_URI:-sqlite:///$${RECALL_HOME:-$(CURDIR)/.recall}/mlflow.db}"

venv: $(STAMP) ## the set-up alone; re-used while pyproject.toml and constraints.txt stay as they are

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(None if sys.version_info >= (3, 11) else "Python 3.11 or newer is needed; set PYTHON=...")'
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $(STAMP)

clean: ## remove the set-up, caches and runs
	rm -rf $(VENV) .recall runs build *.egg-info
