# Everything here needs only make and a Python 3.11 or newer with venv and pip; the rest is fetched,
# in the exact versions of requirements/, into .venv. Start with `make help`.

# The first of these that is new enough makes .venv; name another with `make PYTHON=/path/to/python`.
PYTHON ?= python3 python3.13 python3.12 python3.11
# Processes of `make test`: one more than there are processors, since tests also wait. What measures
# runs by itself at the end.
JOBS ?= $$(( 1 + $$(getconf _NPROCESSORS_ONLN) ))
# Passed on to the program by run, bench, test and test-real.
ARGS ?=
# What `make extra` installs.
NAME ?=
# `make lock UPGRADE=--upgrade`, or UPGRADE="--upgrade-package ruff".
UPGRADE ?=

BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
PYTEST := $(BIN)/python -m pytest
# Not a failure: ARGS named tests of the other kind only.
NONE := test $$? -eq 5
EXTRAS := telegram discord slack matrix whatsapp signal postgres local all

.DEFAULT_GOAL := help
.PHONY: help run extra test test-real check fix bench lock clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

run: .venv/.core ## Run the program: make run ARGS="--help"
	@$(BIN)/segue $(ARGS)

extra: .venv/.core ## Install what a platform or an engine needs: make extra NAME=telegram
	@case " $(EXTRAS) " in *" $(NAME) "*) ;; \
		*) echo "Name one of these: $(EXTRAS). For example: make extra NAME=telegram" >&2; exit 1;; esac
	@echo "installing what $(NAME) needs into .venv"
	@$(PIP) install --require-hashes --no-deps -r requirements/$(NAME).txt

test: .venv/.dev ## Run every test that needs no outside component
	$(PYTEST) -m "not real and not measures" -n $(JOBS) --dist worksteal $(ARGS) || $(NONE)
	$(PYTEST) -m "measures and not real" $(ARGS) || $(NONE)

test-real: export SEGUE_MODELS = $(CURDIR)/.venv/models
test-real: .venv/.dev ## Run the tests against real components, one at a time
	@command -v chromium >/dev/null || { echo "installing Chromium"; \
		apt-get -qq update && apt-get -qq install --no-install-recommends --yes chromium >/dev/null; }
	$(BIN)/segue model pull --yes
	$(PYTEST) -m real $(ARGS)

check: .venv/.dev ## Lint, formatting, types and the direction of imports
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/basedpyright
	$(BIN)/lint-imports --no-cache --no-logo

fix: .venv/.dev ## Mend what Ruff can mend, and format
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: .venv/.dev ## Measure: make bench ARGS="--quick store"
	$(BIN)/python -m benchmarks $(ARGS)

# One resolution of everything together decides the versions; each lock is then a part of it, because
# uv keeps to the pins it finds in the file it is about to write.
COMPILE = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--custom-compile-command "make lock"
WHOLE := .venv/whole.txt
# What `segue model pull` installs, shipped with the program.
RUNTIME := src/segue/agent/models/local/requirements.txt

lock: .venv/.dev ## Lock the dependencies anew; UPGRADE=--upgrade takes the newest versions
	cat requirements/*.txt > $(WHOLE)
	$(COMPILE) $(UPGRADE) pyproject.toml --all-extras --group dev -o $(WHOLE)
	cp $(WHOLE) requirements/core.txt
	$(COMPILE) pyproject.toml -o requirements/core.txt
	cp $(WHOLE) requirements/build.txt
	$(COMPILE) --group build -o requirements/build.txt
	cp $(WHOLE) requirements/dev.txt
	$(COMPILE) pyproject.toml --extra postgres --extra local --extra telegram --group dev \
		-o requirements/dev.txt
	for extra in $(EXTRAS); do \
		cp $(WHOLE) requirements/$$extra.txt && \
		$(COMPILE) pyproject.toml --extra $$extra -o requirements/$$extra.txt || exit 1; \
	done
	cp $(WHOLE) $(RUNTIME)
	echo xllamacpp | $(COMPILE) --no-annotate - -o $(RUNTIME)
	@disagree=$$(sed -n 's/^\([a-z0-9][^ =]*==[^ ;]*\).*/\1/p' requirements/*.txt $(RUNTIME) | sort -u | cut -d= -f1 | uniq -d); \
		test -z "$$disagree" || { echo "locked at two versions: $$disagree" >&2; exit 1; }

clean: ## Remove .venv and every cache
	rm -rf .venv build dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# The stamps: each is touched last, so that an interrupted install starts over.

.venv/.made:
	@for python in $(PYTHON); do \
		if "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
			echo "making .venv with $$("$$python" --version)"; \
			"$$python" -m venv --clear .venv && touch $@ && exit 0; \
			echo "$$python could not make .venv; on Debian and Ubuntu: apt install python3-venv" >&2; \
			exit 1; \
		fi; \
	done; \
	echo "Segue needs Python 3.11 or newer, and none of these is: $(PYTHON)." >&2; \
	echo "Install one, or name it: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)" >&2; \
	exit 1

.venv/.core: .venv/.made requirements/core.txt requirements/build.txt pyproject.toml
	@echo "installing Segue into .venv"
	@$(PIP) install --require-hashes --no-deps -r requirements/core.txt -r requirements/build.txt
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

.venv/.dev: .venv/.core requirements/dev.txt
	@echo "installing the tools of the project into .venv"
	@$(PIP) install --require-hashes --no-deps -r requirements/dev.txt
	@touch $@
