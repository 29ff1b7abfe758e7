# make help lists the targets. Binaries land in bin/; the embedded engine's
# library lies in a cache folder outside the tree.

GO       ?= go
BIN      := bin
COMMANDS := $(notdir $(wildcard cmd/*))
PACKAGES := ./...
# how long the tests of one package may take; on a free machine they take minutes
PATIENCE := 30m
FUZZTIME ?= 20s
GOFLAGS  += -mod=readonly
export GOFLAGS

.DEFAULT_GOAL := help
.PHONY: help run build engine redis assets screenshots test race fuzz torture torture-ci torture-controls soak test-disk bench bench-cost bench-durability bench-go lint e2e vulnerabilities clean plugin plugin-install docker busybox chromium $(COMMANDS)

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: build engine ## start everything with embedded engines: data in ./data, a demo project, a line to paste
	./$(BIN)/standalone

build: $(COMMANDS) ## build every process into bin/

$(COMMANDS):
	@mkdir -p $(BIN)
	$(GO) build -trimpath -o $(BIN)/$@ ./cmd/$@

PLUGIN          := $(BIN)/plugin
CA_CERTIFICATES ?= $(firstword $(wildcard /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/cert.pem))

plugin: ## build the Docker log-driver plugin into bin/plugin and print how to install it
	@test -n "$(CA_CERTIFICATES)" || { echo "no CA certificates found: install ca-certificates, or make plugin CA_CERTIFICATES=FILE"; exit 1; }
	@rm -rf $(PLUGIN)
	@mkdir -p $(PLUGIN)/rootfs/etc/ssl/certs $(PLUGIN)/rootfs/run/docker/plugins $(PLUGIN)/rootfs/spool $(PLUGIN)/rootfs/files
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags='-s -w' -o $(PLUGIN)/rootfs/collector ./cmd/collector
	@cp $(CA_CERTIFICATES) $(PLUGIN)/rootfs/etc/ssl/certs/ca-certificates.crt
	@cp deploy/collector/config.json $(PLUGIN)/
	@echo "the plugin is in $(PLUGIN); as root:"
	@echo "  docker plugin create collector:latest $(PLUGIN)"
	@echo "  docker plugin enable collector:latest"

plugin-install: plugin ## install and enable the plugin in the local Docker Engine (root)
	docker plugin create collector:latest $(PLUGIN)
	docker plugin enable collector:latest

engine: ## download the embedded ClickHouse engine into the cache folder, once
	@$(GO) run ./pkg/embedded/engine/fetch

redis: # Debian's redis-tools contains the server; it is installed if that is possible
	@command -v redis-server >/dev/null || command -v redis-check-rdb >/dev/null || { \
		if command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then apt-get update -qq && apt-get install -y -qq --no-install-recommends redis-tools; \
		else echo "the tests need a Redis server: install redis-server or Debian's redis-tools"; exit 1; fi; }

docker: # the container tests start their own Docker Engine; it is installed if that is possible
	@command -v dockerd >/dev/null || { \
		if command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then apt-get update -qq && apt-get install -y -qq --no-install-recommends docker.io; \
		else echo "the tests need Docker's engine: install dockerd, such as Debian's docker.io"; exit 1; fi; }

busybox: # local images of engines use it for health checks; it is installed if that is possible
	@command -v busybox >/dev/null || { \
		if command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then apt-get update -qq && apt-get install -y -qq --no-install-recommends busybox-static; \
		else echo "the test of deploy/compose needs busybox, such as Debian's busybox-static"; exit 1; fi; }

chromium: # the tests of the pages use it; it is installed if that is possible
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || { \
		if command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core; \
		else echo "the tests of the pages need Chromium, such as Debian's chromium with fonts-dejavu-core"; exit 1; fi; }

test: engine redis assets docker chromium ## run every test against the real engines
	$(GO) test -timeout $(PATIENCE) $(PACKAGES)
	@if [ "$$(id -u)" = 0 ]; then $(GO) test -tags privileged -run 'FullDisk|StuckServer' ./pkg/embedded; \
		else echo "not root: the two tests that fill a disk were not run (sudo make test-disk)"; fi
	$(GO) test -tags failpoint -run Failpoint ./pkg/writer

test-disk: ## run the tests that mount a small disk and fill it (root)
	$(GO) test -tags privileged -run 'FullDisk|StuckServer' ./pkg/embedded

race: engine redis assets docker chromium ## run every test under the race detector
	$(GO) test -race -timeout $(PATIENCE) $(PACKAGES)

fuzz: ## run every fuzz target for FUZZTIME each (default 20s)
	@set -e; for package in $$($(GO) list $(PACKAGES)); do \
		for target in $$($(GO) test -list '^Fuzz' $$package | grep '^Fuzz' || true); do \
			echo "$$package $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) $$package; \
		done; \
	done

e2e: engine redis ## run the end-to-end suite alone, verbosely (LOGBOOM_CORPUS=folder of *.log for real lines)
	$(GO) test -count=1 -v ./pkg/e2e

BROWSER_CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/logboom/browser

assets: ## download what the browser tests need into the cache folder, by package-lock.json
	@mkdir -p $(BROWSER_CACHE)
	@cmp -s pkg/e2e/browser/package-lock.json $(BROWSER_CACHE)/fetched.json || { \
		cp pkg/e2e/browser/package.json pkg/e2e/browser/package-lock.json $(BROWSER_CACHE)/ && \
		cd $(BROWSER_CACHE) && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error && cp package-lock.json fetched.json; }

screenshots: engine assets chromium ## write the pictures of docs/screenshots again (needs Chromium)
	LOGBOOM_SCREENSHOTS=$(CURDIR)/docs/screenshots $(GO) test -count=1 ./pkg/e2e/browser

TORTURE  ?= -duration 10m

torture: engine redis ## inflict all faults under load and count the records (root and strace for disk faults; TORTURE=options, -list names the faults)
	$(GO) run ./pkg/e2e/torture $(TORTURE)

# The faults of torture-ci, each inflicted once: those that take seconds, and of the
# errors at failpoints those that leave most to resolve.
TORTURE_CI = kills,failpoints,-failpoint-after-intent-sleep,-failpoint-inside-insert-sleep,-failpoint-before-commit-sleep,-failpoint-take-over-error,-failpoint-before-intent-error,-failpoint-after-intent-error,-failpoint-after-commit-error,zombie-brief,freezes,flush-redis,reset-tables,reset-queue,mute-tables,poison

torture-ci: engine redis ## a selection of torture of about 3 minutes: one round of faults that need no tools, and a power loss if a disk can be mounted
	@faults=$(TORTURE_CI); folder=$$(mktemp -d); \
	if truncate -s 8M $$folder/image && mkfs.ext4 -q -F $$folder/image && mkdir $$folder/disk && \
		unshare -m sh -c "mount -o loop $$folder/image $$folder/disk && umount $$folder/disk"; \
	then faults=$$faults,power-loss; else echo "a disk cannot be mounted here: the power loss is not tested (it needs root, loop devices and mkfs.ext4)"; fi; \
	rm -rf $$folder; \
	$(GO) run ./pkg/e2e/torture -faults $$faults -rounds 1 -duration 60s -calm 500ms -rate 1000 -records 20000

torture-controls: engine redis ## check that torture catches writers that are known to lose or double records
	$(GO) run ./pkg/e2e/torture -control naive -duration 40s
	$(GO) run ./pkg/e2e/torture -control token -duration 40s

SOAK ?= -duration 30m

soak: engine redis ## keep load up while processes are killed at random, then check counts, memory, goroutines, files and the queue (SOAK=options)
	$(GO) run ./pkg/e2e/torture -soak -faults kills -calm 20s -rate 5000 $(SOAK)

bench: engine redis ## measure the pipeline and print targets beside measured values (LOGBOOM_CORPUS=folder of *.log for real lines, LOGBOOM_BENCH_SUSTAIN=5m at full speed)
	$(GO) test -run '^$$' -bench 'Targets|Readable' -benchtime 1x -timeout 60m ./pkg/e2e

bench-cost: engine redis ## measure the cost of a line by kind of load, batch size and number of projects (LOGBOOM_BENCH_PROFILES=folder for CPU profiles)
	$(GO) test -run '^$$' -bench 'Pipeline|Cost|Grid' -benchtime 1x -timeout 60m ./pkg/e2e

bench-durability: engine ## measure the cost of syncing to disk
	$(GO) test -run '^$$' -bench Durability -benchtime 1s -count 3 -timeout 30m ./pkg/e2e

bench-go: engine redis ## run the packages' own benchmarks
	$(GO) test -run '^$$' -bench . -benchmem ./pkg/...

# Packages that hold helpers of tests: no program reaches them.
TEST_SUPPORT := /[a-z]+test/|^pkg/freeport/

lint: ## gofmt, go vet, staticcheck, the import rule, and no function that no program reaches
	@unformatted=$$(gofmt -l cmd deploy docs pkg schema); test -z "$$unformatted" || { echo "not gofmt-ed: $$unformatted"; exit 1; }
	$(GO) vet $(PACKAGES)
	$(GO) tool staticcheck $(PACKAGES)
	$(GO) tool depguard $(PACKAGES)
	@unreachable=$$($(GO) tool deadcode $(PACKAGES)) || exit 1; \
		unreachable=$$(echo "$$unreachable" | grep -vE '$(TEST_SUPPORT)'); \
		test -z "$$unreachable" || { echo "only tests reach these functions, or nothing does:"; echo "$$unreachable"; exit 1; }

IMAGES  := ingest writer notifier admin
VERSION ?= latest
TOOLS   := $(CURDIR)/$(BIN)/tools
KUBERNETES := v1.36.3

.PHONY: images images-local helm-test helm-dry-run compose-test compose-up-test alerts-test cluster dashboards

# Other base images for deploy/Dockerfile, and more arguments of docker build, such
# as --build-arg GOPROXY=… behind a proxy.
GO_IMAGE    ?=
BASE        ?=
GLIBC_BASE  ?=
IMAGE_FLAGS ?=
STAMP       := $(shell git rev-parse --short=12 HEAD 2>/dev/null)
BUILD_IMAGE  = docker build -f deploy/Dockerfile --build-arg STAMP=$(STAMP) $(foreach base,GO_IMAGE BASE GLIBC_BASE,$(if $($(base)),--build-arg $(base)=$($(base)))) $(IMAGE_FLAGS)

images: ## build the images logboom/<process> and logboom/standalone (Docker with a registry, or your own GO_IMAGE, BASE and GLIBC_BASE)
	@set -e; for name in $(IMAGES); do $(BUILD_IMAGE) --target process --build-arg COMMAND=$$name -t logboom/$$name:$(VERSION) .; done
	$(BUILD_IMAGE) --target standalone --build-arg COMMAND=standalone -t logboom/standalone:$(VERSION) .

images-local: engine redis ## build local/<engine> and local/logboom-<process> without a registry
	deploy/images/local.sh

$(TOOLS)/helm:
	GOBIN=$(TOOLS) GOFLAGS= $(GO) install helm.sh/helm/v3/cmd/helm@v3.22.0

$(TOOLS)/kubeconform:
	GOBIN=$(TOOLS) GOFLAGS= $(GO) install github.com/yannh/kubeconform/cmd/kubeconform@v0.8.0

$(TOOLS)/schemas-$(KUBERNETES): # of the description in Kubernetes' own source; whole, or not there
	rm -rf $@.part
	$(GO) run ./deploy/helm/schemas "$$(cd / && GOFLAGS= $(GO) mod download -json k8s.io/kubernetes@$(KUBERNETES) | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')/api/openapi-spec/swagger.json" $@.part
	mv $@.part $@

helm-test: $(TOOLS)/helm $(TOOLS)/kubeconform $(TOOLS)/schemas-$(KUBERNETES) ## lint, render and check the Helm chart over deploy/helm/values
	deploy/helm/test.sh $(TOOLS)/helm $(TOOLS)/kubeconform $(TOOLS)/schemas-$(KUBERNETES)

helm-dry-run: $(TOOLS)/helm ## check the chart with a real Kubernetes API server, which is built once in about 10 minutes
	cd deploy/helm/apiserver && LOGBOOM_TEST_HELM=$(TOOLS)/helm $(GO) test -count=1 -timeout 30m \
		-ldflags '-X k8s.io/component-base/version.gitVersion=$(KUBERNETES)' ./...

$(TOOLS)/compose-go:
	GOBIN=$(TOOLS)/compose GOFLAGS= $(GO) install github.com/compose-spec/compose-go/v2/cmd@v2.16.2
	mv $(TOOLS)/compose/cmd $@ && rmdir $(TOOLS)/compose

compose-test: $(TOOLS)/compose-go ## check deploy/compose against the Compose specification
	deploy/compose/test.sh $(TOOLS)/compose-go

COMPOSE := v2.40.3

$(TOOLS)/docker-compose-$(COMPOSE): # from a copy of its source: it excludes modules, which go install refuses
	@mkdir -p $(TOOLS)
	@set -e; source=$$(mktemp -d); trap 'rm -rf "$$source"' EXIT; \
	cp -r "$$(cd / && GOFLAGS= $(GO) mod download -json github.com/docker/compose/v2@$(COMPOSE) | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')/." "$$source"; \
	chmod -R u+w "$$source"; cd "$$source" && CGO_ENABLED=0 $(GO) build -ldflags='-s -w' -o $@ ./cmd

compose-up-test: $(TOOLS)/docker-compose-$(COMPOSE) engine redis docker busybox ## run deploy/compose with real containers as a user does: kill, scale, restart, down and up (Docker, or root)
	LOGBOOM_TEST_COMPOSE=$< $(GO) test -count=1 -v -timeout 20m -tags compose -run Compose ./pkg/e2e/cluster

alerts-test: ## check with Prometheus' own engine when each alert rule fires
	cd deploy/alerts/check && $(GO) test -count=1 ./...

cluster: engine redis ## kill, pause and disconnect every container of a cluster under load, and count the records (Docker, or root and docker.io)
	LOGBOOM_TEST_CLUSTER=all $(GO) test -count=1 -v -timeout 20m ./pkg/e2e/cluster

dashboards: ## write the dashboards again after a change of their source
	$(GO) run ./deploy/dashboards

vulnerabilities: ## check the dependencies against the Go vulnerability database (needs the internet)
	$(GO) tool govulncheck $(PACKAGES)

clean: ## remove bin/ (data and the engine's cache stay)
	rm -rf $(BIN)
