.DEFAULT_GOAL := help
SHELL := /bin/sh
BIN := .venv/bin
ARGS ?=

export PYTHON

.PHONY: help setup demo test fuzz-permissions interop fuzz lint format types check package smoke
.PHONY: fuzz-wire bench profile soak sweep clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Make .venv and install what is needed; quick when nothing changed
	@sh scripts/setup.sh

demo: setup ## Show a whole exchange with the agent on a scratch project
	@$(BIN)/python scripts/demo.py

test: setup ## Run the tests; ARGS="-k name" chooses some
	@$(BIN)/python -m pytest -n auto $(ARGS)

fuzz-permissions: setup ## Play random permission conversations; FUZZ_COUNT and FUZZ_SEED choose
	@$(BIN)/python -m tests.permissions.fuzz

fuzz-wire: setup ## Send random sequences of lines, some right, most wrong; FUZZ_COUNT says how many
	@FUZZ_COUNT=$${FUZZ_COUNT:-1000} $(BIN)/python -m pytest tests/wire/test_wire_sequences.py

interop: setup ## Run term2 with clients that others wrote, which it installs
	@sh scripts/interop.sh $(ARGS)

fuzz: setup ## Try random edits against a model of the file; ARGS="--count 10000 --seed 1"
	@$(BIN)/python scripts/fuzz_edits.py $(ARGS)

lint: setup ## Check the style
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

format: setup ## Put the code into the one format
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

types: setup ## Check the types
	@$(BIN)/mypy --strict term2_acp sandbox

check: lint types test ## Everything that must pass

package: setup ## Build sdist and wheel, install them afresh and run what was installed
	@sh scripts/package.sh

smoke: setup ## One exchange with the offline model, told in a line of JSON
	@$(BIN)/python scripts/smoke

bench: setup ## Measure against floors and peers; ARGS="--only NAME --json FILE"
	@PYTHONPATH=scripts $(BIN)/python -m bench $(ARGS)

profile: setup ## Show where start-up and turns spend their time; ARGS="startup turn writer"
	@PYTHONPATH=scripts $(BIN)/python -m bench.profiles $(ARGS)

soak: setup ## Live with a bad editor and model, then sweep; ARGS="--seconds 60" is without
	@PYTHONPATH=scripts $(BIN)/python -m soak $(ARGS)
	@[ -n "$(ARGS)" ] || $(MAKE) --no-print-directory sweep

sweep: setup ## Kill a server after every line of a turn; use one store from two at random
	@$(BIN)/python scripts/soak/kill_sweep.py
	@$(BIN)/python scripts/soak/two_processes.py

clean: ## Remove .venv and everything else that the targets made
	@rm -rf .venv .venv-interop tests/interop/node_modules build dist *.egg-info
	@rm -rf .hypothesis .mypy_cache .pytest_cache .ruff_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
