# Everything a clone needs: `make demo` shows it, `make test` checks it. Both do their own set-up.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
NEW_VENV = $(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "Python 3.11 or newer is needed: PYTHON=…"' \
	&& $(PYTHON) -m venv $(VENV)
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
LAB := $(BIN)/python -m tests.lab
VM := $(BIN)/python -m tests.vm
INVENTORY := inventories/lab.toml
TWO := -n 2 --maxschedchunk 1
NODES := gpu-k gpu-l gpu-m
NODES_INVENTORY := inventories/lab-cluster.toml

.PHONY: help venv lab-up cluster-up lab-down lab-reset lab-status vm-up vm-down demo test test-roll test-vm gpu-check lint clean

help:
	@echo "make demo       lab of three bare hosts, then 'provision apply' twice"
	@echo "make test       ruff, mypy and all tests, on Docker hosts and virtual machines too"
	@echo "make test-roll  of these, whole rolling upgrades over three nodes, with crashes and faults"
	@echo "make test-vm    of these, those on virtual machines with a kernel of their own"
	@echo "make lint       ruff and mypy alone"
	@echo "make venv       virtual environment in $(VENV)"
	@echo "make lab-up     start the lab as it is; lab-reset makes its hosts bare again"
	@echo "make lab-up CLUSTER=1   three more hosts too, with a driver, as nodes of a test cluster"
	@echo "make lab-down   remove the lab's hosts and the cluster (images and caches stay)"
	@echo "make vm-up      a machine with a kernel of its own, under QEMU, for inventories/vm.toml; vm-down ends it"
	@echo "make gpu-check  on a host with a real card: where it differs from what the tests simulate"
	@echo "make clean      remove hosts, virtual environment and the lab's keys"

venv: $(STAMP)

$(STAMP): pyproject.toml
	$(NEW_VENV)
	$(INSTALL) -e '.[test]'
	touch $@

# A host with a card needs the product alone.
$(BIN)/provision:
	$(NEW_VENV)
	$(INSTALL) -e .

lab-up: venv
	$(LAB) up
	$(if $(filter 1,$(CLUSTER)),$(MAKE) cluster-up)

# Three more hosts as nodes of the test cluster, with the driver that their inventory names. Where the cluster runs
# they stay as they are.
cluster-up: venv
	$(BIN)/python -m tests.cluster status || { $(LAB) reset $(NODES) \
		&& $(BIN)/provision apply $(NODES_INVENTORY) --yes --disruptive && $(BIN)/python -m tests.cluster up $(NODES); }

lab-down: venv
	$(BIN)/python -m tests.cluster down
	$(LAB) down

lab-reset: venv
	$(LAB) reset

lab-status: venv
	$(LAB) status

vm-up: venv
	$(VM) up

vm-down: venv
	$(VM) down

demo: venv
	$(LAB) reset
	$(BIN)/provision lock $(INVENTORY)
	$(BIN)/provision apply $(INVENTORY) --yes
	$(BIN)/provision apply $(INVENTORY) --yes

lint: venv
	$(BIN)/ruff check
	$(BIN)/mypy

# First what needs no lab: machines with a kernel of their own, two at a time, and between them the unit tests.
test: lint
	$(BIN)/python -m pytest tests/unit tests/vm $(TWO)
	$(MAKE) lab-up
	$(BIN)/python -m pytest --ignore=tests/unit --ignore=tests/vm

test-roll: venv lab-up
	$(BIN)/python -m pytest tests/roll

test-vm: venv
	$(BIN)/python -m pytest tests/vm $(TWO)

# On a host with a card: where it differs from what the tests simulate. Changes nothing; asks for root.
gpu-check: $(BIN)/provision
	$(if $(filter 0,$(shell id -u)),,sudo )env PYTHONDONTWRITEBYTECODE=1 $(BIN)/python -m tests.gpucheck

clean: lab-down vm-down
	rm -rf $(VENV) tests/lab/.state
