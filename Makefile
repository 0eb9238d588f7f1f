# The commands of the project. `make run` and `make test` do all the set-up that they need.
# Budgets of the short form on two cores, in minutes; a suite that outgrows its own moves scenarios to `test-long`.
BUDGET_UNIT       := 8
BUDGET_CLIENTS    := 6
BUDGET_CLUSTER    := 6
BUDGET_REPLICATION := 8
BUDGET_SIMULATION := 4
BUDGET_TOOLS      := 4
BUDGET_METRICS    := 4
BUDGET_CONSOLE    := 3
BUDGET_KUBERNETES := 12

# test-long: SHARD=i/n runs the i-th of n parts. fuzz: seconds for each target. sim: how many seeds.
SHARD ?= 1/1
FUZZ_SECONDS ?= 60
SEEDS ?= 200
# Of whole clusters, each of which takes a second.
CLUSTER_SEEDS ?= 50
# The first of them: another one with each commit, and the same one when a commit is tested again.
SEED ?= $(shell echo $$((0x$$(git rev-parse --short=8 HEAD | cut -c1-8))))

TARGET_DIR := $(abspath $(or $(CARGO_TARGET_DIR),target))
# Real processes are tested with the binary that people run.
export TAFFRAIL_BIN ?= $(TARGET_DIR)/release/taffrail

# What is measured is what is shipped; PROFILE=release builds quicker, for a first look.
# The image of every role, and the target whose binary needs no library: glibc, linked statically, as this machine has it.
IMAGE         ?= localhost/taffrail:dev
IMAGE_PROFILE ?= release
IMAGE_TAR     := $(TARGET_DIR)/taffrail-image.tar
HOST           = $(shell rustc -vV | sed -n 's/^host: //p')

BENCH = env TAFFRAIL_BIN=$(TARGET_DIR)/$(PROFILE)/taffrail $(TARGET_DIR)/$(PROFILE)/taffrail-bench
PROFILE ?= dist

.PHONY: help run build test test-long unit setup cases clients cluster metrics console chaos simulation sim bench bench-check build-dist image image-binary man sbom e2e-kubernetes kubernetes-rig lint fix fuzz advisories

help: ## what can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

run: ## serve Kafka clients at 127.0.0.1:9092, with the topics of examples/quickstart.yaml
	cargo run --release -- up -f examples/quickstart.yaml

build: ## the release binary
	cargo build --release --locked -p taffrail-server

test: unit setup build cases clients cluster metrics console simulation e2e-kubernetes ## the short form of every suite (45 minutes warm, 80 cold)

unit: ## unit and property tests of every crate
	bash .ci/suite unit $(BUDGET_UNIT) cargo test --workspace --locked --exclude taffrail-e2e

setup: ## install what the end-to-end tests need: clients, and Apache Kafka 4.4 as the oracle
	bash .ci/suite setup $(BUDGET_TOOLS) bash e2e/setup/install

cases: build ## failures that users of such systems reported, as tests
	bash .ci/suite cases $(BUDGET_CLUSTER) bash e2e/cases/run --ignore=test_durability.py --ignore=test_corpus.py

clients: build ## the same scenario through every client library
	bash .ci/suite clients $(BUDGET_CLIENTS) cargo test --workspace --locked --test clients -- --test-threads 2

cluster: build ## real processes: kills, real input, Kafka's own tools on our files, three brokers and three controllers
	bash .ci/suite cluster $(BUDGET_CLUSTER) bash e2e/cases/run test_durability.py test_corpus.py
	bash .ci/suite replication $(BUDGET_REPLICATION) bash e2e/replication/run

e2e-kubernetes: kubernetes-rig image ## the operator, the chart and the resources on a real Kubernetes 1.34 of three nodes, as root; or on KUBECONFIG's
	bash .ci/suite kubernetes $(BUDGET_KUBERNETES) env TAFFRAIL_IMAGE=$(IMAGE) TAFFRAIL_IMAGE_TAR=$(IMAGE_TAR) \
	  TAFFRAIL_IMAGE_PROFILE=$(IMAGE_PROFILE) TAFFRAIL_BIN=$(TARGET_DIR)/image/taffrail bash e2e/kubernetes/run

kubernetes-rig: # Kubernetes itself, built from Go modules: 7 minutes once, then it is found in the cache
	bash .ci/suite kubernetes-rig $(BUDGET_KUBERNETES) bash e2e/kubernetes/run --build

image: image-binary ## the image of every role, without Docker: target/taffrail-image.tar (IMAGE_PROFILE=dist: as it is shipped)
	e2e/kubernetes/image Dockerfile $(IMAGE) $(IMAGE_TAR) --from build=$(TARGET_DIR)/image \
		--arg REVISION=$$(git rev-parse --short HEAD 2>/dev/null || echo unknown)

image-binary: # the static binary of the image
	RUSTFLAGS='-C target-feature=+crt-static' cargo build --profile $(IMAGE_PROFILE) --locked --target $(HOST) -p taffrail-server
	install -D $(TARGET_DIR)/$(HOST)/$(IMAGE_PROFILE)/taffrail $(TARGET_DIR)/image/taffrail

man: build ## manual pages of all commands, in target/man
	$(TAFFRAIL_BIN) config man $(TARGET_DIR)/man

sbom: ## target/taffrail.cdx.json: every crate in the binary, with version and licence, as CycloneDX
	bash .ci/sbom $(TARGET_DIR)/taffrail.cdx.json

metrics: build ## metrics, dashboards and alerts, read by the real Prometheus
	bash .ci/suite metrics $(BUDGET_METRICS) bash e2e/metrics/run

console: build ## the console in a real headless Chromium
	bash .ci/suite console $(BUDGET_CONSOLE) bash e2e/console/run

chaos: build ## CHAOS_MINUTES (30) of kills, halts, cut wires and full disks of six processes under load; CHAOS_SEED=n repeats one
	bash e2e/replication/run --long test_chaos.py::test_chaos -s

simulation: ## fresh seeds, others with each commit (unit tests run fixed ones): the storage engine, whole clusters
	cargo build --locked -p taffrail-sim
	bash .ci/suite simulation $(BUDGET_SIMULATION) $(TARGET_DIR)/debug/taffrail-sim storage --seed $(SEED) --runs $(SEEDS) --steps 150
	bash .ci/suite clusters $(BUDGET_SIMULATION) $(TARGET_DIR)/debug/taffrail-sim cluster --seed $(SEED) --runs $(CLUSTER_SEEDS) --jobs 2
	bash .ci/suite operated $(BUDGET_SIMULATION) $(TARGET_DIR)/debug/taffrail-sim cluster --operated 1 --seed $(SEED) --runs $$(($(CLUSTER_SEEDS) / 4)) --jobs 2

sim: ## the same with more seeds: make sim SEEDS=5000, of clusters a tenth as many
	$(MAKE) simulation SEEDS=$(SEEDS) CLUSTER_SEEDS=$$(($(SEEDS) / 10))

test-long: setup ## all long forms; SHARD=i/n for a part
	cargo build --release --locked -p taffrail-sim
	cargo build --release --locked -p taffrail-fuzz
	cargo build --release --locked -p taffrail-server
	SHARD=$(SHARD) PROGRAMS=$(TARGET_DIR)/release bash e2e/long

bench: build-dist ## Taffrail beside Kafka 4.4 (10 minutes): docs/benchmarks.md; REPLICATED=1 for clusters (15), FULL=1 for all (40), ONLY=cell,cell prints some (KEEP=1 keeps them)
	$(BENCH) compare $(if $(REPLICATED),--replicated) $(if $(FULL),--full) $(if $(ONLY),--only $(ONLY) $(if $(KEEP),--keep))

bench-check: build-dist ## CPU per GB and per record against the committed figures
	$(BENCH) check

build-dist: ## the binary as it is shipped, and the programs that measure it
	cargo build --profile $(PROFILE) --locked -p taffrail-server -p taffrail-bench

lint: ## everything that can be checked without running the product
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	bash .ci/deny
	bash .ci/unused
	charts/crds --check

fix: ## what a machine can mend
	cargo fmt --all
	cargo clippy --workspace --all-targets --fix --allow-dirty --allow-staged

fuzz: ## hostile input to every decoder, FUZZ_SECONDS for each target
	cargo build --workspace --bins --locked --release
	FUZZ_SECONDS=$(FUZZ_SECONDS) $(TARGET_DIR)/release/taffrail-fuzz

advisories: ## known faults in dependencies; needs the advisory database from the network
	cargo deny check advisories
