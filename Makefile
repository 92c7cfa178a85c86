# Every target makes its own environment first: .venv, with uv where it is installed, else with venv and pip.
# Its versions are those of constraints.txt, so two machines test the same thing.
#
#   make PYTHON=python3.12 test     chooses the interpreter when .venv is made (default: the first that is 3.11 or newer)
#   make UV= test                   does without uv

SHELL := /bin/sh
# What is imported a thousand times is compiled once, whatever the machine (or its container) has been told.
unexport PYTHONDONTWRITEBYTECODE
BIN := .venv/bin
READY := .venv/ready

PYTHON ?=
SEED ?=
KILLS ?= 30
SEEDS ?= 1000
INPUTS ?= 1000000
EVENTS ?=
ORDERS ?=
LAKES ?=
MINUTES ?= 10
RATE ?= 2000
PROCESSES ?= 4
UV ?= $(shell command -v uv 2>/dev/null)

.DEFAULT_GOAL := help
.PHONY: help demo check test test-spark docs chaos soak simulate fuzz format lock clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

demo: $(READY) ## Stream 45,312 electricity-market rows into a live classifier and prove it equal to the batch
	@mkdir -p build
	$(BIN)/deltaplane replay examples/electricity.csv.gz --definition examples/deltaplane.toml --verify --report build/demo.html
	@echo 'Open build/demo.html: the same run as a page'

check: $(READY) ## Check style and types, and run the tests of the core and its laws: the two minutes before a commit
	$(call checked,--numprocesses 2 tests/tidy tests/core tests/laws tests/golden)

test: $(READY) ## Check style and types, build the pages, and run every test (PROCESSES=4)
	$(call checked,--numprocesses $(PROCESSES) --durations 25)

test-spark: .venv-spark/ready ## Run the tests of the engine Spark, in an environment of their own; needs Java 17
	.venv-spark/bin/python -m pytest -n0 tests/spark

docs: $(READY) ## Build the pages of docs/ into build/docs; a warning is an error
	$(BIN)/python -m sphinx -W --keep-going -q -b html -d build/docs-trees docs build/docs
	@echo 'Open build/docs/index.html'

chaos: $(READY) ## Kill everything on a real Kafka of three nodes and prove that nothing is lost (SEED=..., KILLS=30)
	PYTHONPATH=tests $(BIN)/python -m chaos $(if $(SEED),--seed $(SEED)) --kills $(KILLS)

soak: $(READY) ## A steady stream with restarts on a real Kafka: does anything grow? (MINUTES=10, RATE=2000, SEED=...)
	PYTHONPATH=tests $(BIN)/python -m soak --minutes $(MINUTES) --rate $(RATE) $(if $(SEED),--seed $(SEED))

simulate: $(READY) ## Live through many seeded histories of crashes and check each (SEEDS=1000, or SEED=... EVENTS=...; ORDERS=yes, LAKES=yes)
	PYTHONPATH=tests $(BIN)/python -m simulation --seeds $(SEEDS) $(if $(ORDERS),--orders) $(if $(LAKES),--lakes) $(if $(SEED),--seed $(SEED)) $(if $(EVENTS),--events $(EVENTS))

fuzz: $(READY) ## Damage messages and files, and see that each is read or refused (INPUTS=1000000, SEED=...)
	PYTHONPATH=tests $(BIN)/python -m fuzz --inputs $(INPUTS) $(if $(SEED),--seed $(SEED))

format: $(READY) ## Lay out the code as `make test` wants it
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

lock: ## Choose the newest versions that pyproject.toml allows and write them to constraints.txt
	@set -e; $(find_python); \
	uv="$(UV)"; work=`mktemp -d`; trap 'rm -rf "$$work"' EXIT; \
	if [ -z "$$uv" ]; then "$$python" -m venv "$$work"; "$$work/bin/pip" install --quiet uv; uv="$$work/bin/uv"; fi; \
	"$$uv" pip compile --quiet --upgrade --universal --python-version 3.11 --fork-strategy fewest --extra test \
		--no-emit-package deltaplane --no-header --output-file "$$work/lock" pyproject.toml; \
	{ echo '# The exact version of everything that `make demo` and `make test` install, on Python 3.11 and newer.'; \
	  echo '# Made by `make lock`; do not edit.'; cat "$$work/lock"; } > constraints.txt

clean: ## Remove the environment and everything that building and testing leave behind
	rm -rf .venv .venv-spark dist build .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Style first, which takes a second. Types are checked beside the tests, and told of at the end if they are wrong; that
# fails the target as a test does. More processes than cores: tests that start brokers wait half of their time.
define checked
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	@echo '$(BIN)/mypy (beside what follows)'; types=`mktemp`; $(BIN)/mypy > "$$types" 2>&1 & checking=$$!; \
	trap 'kill $$checking 2>/dev/null; rm -f "$$types"' EXIT; failed=; \
	echo '$(BIN)/pytest $(1)'; $(BIN)/pytest --dist loadscope $(1) || failed=yes; \
	wait $$checking || { failed=yes; cat "$$types"; }; test -z "$$failed"
endef

# Sets $$python to a suitable interpreter or stops. A name on PATH may be a shim for a version that is not there, so each
# is tried. ensurepip is what Debian's python3 lacks until python3-venv is installed; uv does without it, and where there is
# no Python at all it fetches the version it is told.
define find_python
python=; \
for name in $(if $(PYTHON),$(PYTHON),python3 python3.13 python3.12 python3.11 python3.14 python); do \
	if "$$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && \
		{ [ -n "$(UV)" ] || "$$name" -c 'import ensurepip, venv' 2>/dev/null; }; then python="$$name"; break; fi; \
done; \
if [ -z "$$python" ] && [ -n "$(UV)" ] && [ -z "$(PYTHON)" ]; then python=3.13; fi; \
if [ -z "$$python" ]; then \
	echo 'Deltaplane needs Python 3.11 or newer with its venv module$(if $(PYTHON), (and PYTHON=$(PYTHON) is not that)).' >&2; \
	echo 'Install one (Debian and Ubuntu: python3 and python3-venv), install uv, or name one: make PYTHON=python3.12 test' >&2; \
	exit 1; \
fi
endef

# Made anew whenever what it depends on changes: what is in it is then what the lock says, and nothing left from before.
# The build tool comes first and from the lock, so that the editable install fetches none of its own.
$(READY): pyproject.toml constraints.txt
	@set -e; rm -rf .venv; $(find_python); \
	if [ -n "$(UV)" ]; then \
		echo "Making .venv with uv ..."; \
		"$(UV)" venv --quiet --python "$$python" .venv; \
		install="$(UV) pip install --quiet --python $(BIN)/python --constraint constraints.txt"; \
	else \
		echo "Making .venv with pip (a minute or so) ..."; \
		"$$python" -m venv .venv; \
		install="$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt"; \
	fi; \
	$$install hatchling; \
	$$install --no-build-isolation --editable '.[test]'; \
	touch $@

# pyspark is a source archive of half a gigabyte, whose wheel takes minutes to build; so it is not in .venv. Only from
# 70.1 on can setuptools make a wheel by itself, and the one that comes with Python 3.11 is older.
.venv-spark/ready: pyproject.toml constraints.txt constraints-spark.txt
	@set -e; rm -rf .venv-spark; $(find_python); \
	echo "Making .venv-spark with pip (some minutes) ..."; \
	"$$python" -m venv .venv-spark; \
	install=".venv-spark/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt"; \
	$$install --constraint constraints-spark.txt hatchling editables hypothesis pytest pytest-xdist 'setuptools>=70.1'; \
	$$install --constraint constraints-spark.txt --no-build-isolation --editable '.[spark]'; \
	touch $@
