# Everything a clone needs: `make demo` shows it, `make test` checks it. Both do their own set-up.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
LAB := $(BIN)/python -m tests.lab
INVENTORY := inventories/lab.toml

.PHONY: help venv lab-up lab-down lab-reset lab-status demo test lint clean

help:
	@echo "make demo       lab of three bare hosts, then 'provision apply' twice"
	@echo "make test       ruff, mypy and all tests, the lab's included"
	@echo "make lint       ruff and mypy alone"
	@echo "make venv       virtual environment in $(VENV)"
	@echo "make lab-up     start the lab as it is; lab-reset makes its hosts bare again"
	@echo "make lab-down   remove the lab's hosts (images and caches stay)"
	@echo "make clean      remove hosts, virtual environment and the lab's keys"

venv: $(STAMP)

$(STAMP): pyproject.toml
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "Python 3.11 or newer is needed: PYTHON=…"'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test]'
	touch $@

lab-up: venv
	$(LAB) up

lab-down: venv
	$(LAB) down

lab-reset: venv
	$(LAB) reset

lab-status: venv
	$(LAB) status

demo: venv
	$(LAB) reset
	$(BIN)/provision lock $(INVENTORY)
	$(BIN)/provision apply $(INVENTORY) --yes
	$(BIN)/provision apply $(INVENTORY) --yes

lint: venv
	$(BIN)/ruff check
	$(BIN)/mypy

test: lint lab-up
	$(BIN)/python -m pytest

clean: lab-down
	rm -rf $(VENV) tests/lab/.state
