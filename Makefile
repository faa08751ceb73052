# Every target works from nothing but Python 3.11+ and make: it creates .venv and installs what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# One stamp per set of requirements, so that a second run installs nothing.
STAMP = $(VENV)/.$(1)-installed

DATA ?= ../shared/data
RUNNER ?= pytest
OPTIONS ?=

.PHONY: run test test-lowest system journeys fresh-pages slow lint types bench docs study clean coverage kills fuzz \
	degenerate faults

run: $(call STAMP,run)
	$(BIN)/unseen demo

test: $(call STAMP,test)
	# One BLAS thread in each of two processes: four on two cores would wait for each other. Tests start many
	# processes, and none of them should have to compile the package again.
	PYTHONDONTWRITEBYTECODE= OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m $(RUNNER) -n 2 --dist worksteal $(OPTIONS)

# The lowest versions of packages that pyproject.toml allows, in an environment of their own.
test-lowest: $(BIN)/python
	$(BIN)/python -m venv $(VENV)/lowest
	$(VENV)/lowest/bin/python -m pip install --quiet uv
	$(VENV)/lowest/bin/uv pip install --quiet --python $(VENV)/lowest/bin/python --resolution lowest-direct -e '.[all]' --group test
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(VENV)/lowest/bin/python -m pytest -n 2 --dist worksteal

# Browsers, clusters, terminals, killed processes and the memory of processes: about two minutes.
system: $(call STAMP,test)
	$(MAKE) test OPTIONS='-m system tests'

# Every command and verb at its defaults, in two processes, on tables of realistic size: at most six minutes on two
# cores. Files run beside each other, since a command computes in one process part of its time.
journeys: $(call STAMP,test)
	$(MAKE) test OPTIONS='--dist loadfile -m journeys --durations=10 tests/journeys'

# The README and the tutorials, each followed in an environment of its own after exactly its install line; nightly.
# The tutorial with photographs needs a network that one has to download.
PAGES ?= README.md $(filter-out %/index.rst %/photographs.rst,$(wildcard docs/tutorials/*.rst))
fresh-pages: $(call STAMP,test)
	$(BIN)/python -m hardening.fresh_pages $(PAGES)

# These tests and those of `make system`, measured: at least 95% of lines and branches. Twice the time of an
# unmeasured run, since Python before 3.12 reports each call to the measurement.
coverage: $(call STAMP,test)
	$(BIN)/python -m coverage erase
	$(MAKE) test RUNNER='coverage run -m pytest' OPTIONS='-m "not slow and not journeys and not docs"'
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage report

# Studies of calibration, and of fits to noise: about twenty minutes.
slow: $(call STAMP,test)
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m slow -s tests

lint: $(call STAMP,lint)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(call STAMP,types)
	$(BIN)/mypy

bench: $(call STAMP,test)
	$(BIN)/python -m benchmarks

# Real data, one folder per data set below DATA; about an hour. Stop it and run it again to continue.
study: $(call STAMP,study)
	$(BIN)/python -m studies.tables --data $(DATA) --output studies/results/tables.jsonl --csv docs/results
	$(BIN)/python -m studies.tables --data $(DATA) --arrays --output studies/results/tables.jsonl --csv docs/results
	$(BIN)/python -m studies.ensembles --data $(DATA) --output studies/results/ensembles.jsonl --csv docs/results/ensembles.csv
	$(BIN)/python -m studies.forecast --data $(DATA) --stores studies/results/forecasts

# Campaigns that try to break the package. Each prints its figures.
kills fuzz degenerate faults: $(call STAMP,test)
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m hardening $@

# Runs every example and every tutorial, builds the site, then follows every link of it.
docs: $(call STAMP,docs) $(call STAMP,test)
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist worksteal -m docs tests
	$(BIN)/sphinx-build -W --keep-going -b html docs docs/_build/html
	$(BIN)/python -m pytest -q tests/test_site.py

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "unseen needs Python 3.11 or later; set PYTHON=/path/to/python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'

$(call STAMP,run): $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install --quiet -e '.[cli]'
	touch $@

$(VENV)/.%-installed: $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install --quiet -e '.[all]' --group $*
	touch $@

# What the targets above made, but for the results of studies: those take half an hour. Results of your own tables stay.
clean:
	rm -rf $(VENV) report.html synthetic.png hospitals.unseen docs/_build docs/gallery docs/generated \
		docs/sg_execution_times.rst .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage*
