# make help lists the targets. Binaries land in bin/; the embedded engine's
# library lies in a cache folder outside the tree.

GO       ?= go
BIN      := bin
COMMANDS := $(notdir $(wildcard cmd/*))
PACKAGES := ./...
FUZZTIME ?= 20s
GOFLAGS  += -mod=readonly
export GOFLAGS

.DEFAULT_GOAL := help
.PHONY: help run build engine redis test race fuzz torture torture-controls test-disk bench bench-durability bench-go lint e2e vulnerabilities clean $(COMMANDS)

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: build engine ## start everything on embedded defaults: data in ./data, a demo project, a line to paste
	./$(BIN)/standalone

build: $(COMMANDS) ## build every process into bin/

$(COMMANDS):
	@mkdir -p $(BIN)
	$(GO) build -trimpath -o $(BIN)/$@ ./cmd/$@

engine: ## fetch the embedded ClickHouse engine into the cache folder, once
	@$(GO) run ./pkg/embedded/engine/fetch

redis: # Debian's redis-tools carries the server too; installed where that is possible
	@command -v redis-server >/dev/null || command -v redis-check-rdb >/dev/null || { \
		if command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then apt-get update -qq && apt-get install -y -qq --no-install-recommends redis-tools; \
		else echo "the tests need a Redis server: install redis-server or Debian's redis-tools"; exit 1; fi; }

test: engine redis ## run every test against the real engines
	$(GO) test $(PACKAGES)
	@if [ "$$(id -u)" = 0 ]; then $(GO) test -tags privileged -run 'FullDisk|StuckServer' ./pkg/embedded; \
		else echo "not root: the two tests that fill a disk of their own were not run (sudo make test-disk)"; fi
	$(GO) test -tags failpoint -run Failpoint ./pkg/writer

test-disk: ## run the tests that mount a small disk and fill it (root)
	$(GO) test -tags privileged -run 'FullDisk|StuckServer' ./pkg/embedded

race: engine redis ## run every test under the race detector
	$(GO) test -race $(PACKAGES)

fuzz: ## run every fuzz target for FUZZTIME each (default 20s)
	@set -e; for package in $$($(GO) list $(PACKAGES)); do \
		for target in $$($(GO) test -list '^Fuzz' $$package | grep '^Fuzz' || true); do \
			echo "$$package $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) $$package; \
		done; \
	done

e2e: engine redis ## run the end-to-end suite alone, verbosely (LOGBOOM_CORPUS=folder of *.log for real lines)
	$(GO) test -count=1 -v ./pkg/e2e

TORTURE  ?= -duration 10m

torture: engine redis ## break everything at once under load and count (root and strace for disk faults; TORTURE=options, -list names the faults)
	$(GO) run ./pkg/e2e/torture $(TORTURE)

torture-controls: engine redis ## writers that are known to lose or double must be caught, or the harness is blind
	$(GO) run ./pkg/e2e/torture -control naive -duration 40s
	$(GO) run ./pkg/e2e/torture -control token -duration 40s

bench: engine redis ## measure the pipeline as a whole (LOGBOOM_CORPUS=folder of *.log for real lines)
	$(GO) test -run '^$$' -bench 'Pipeline|Readable' -benchtime 1x -timeout 30m ./pkg/e2e

bench-durability: engine ## measure what syncing to disk costs
	$(GO) test -run '^$$' -bench Durability -benchtime 1s -count 3 -timeout 30m ./pkg/e2e

bench-go: engine redis ## run the packages' own benchmarks
	$(GO) test -run '^$$' -bench . -benchmem ./pkg/...

lint: ## gofmt, go vet, staticcheck and the import rule
	@unformatted=$$(gofmt -l cmd pkg schema); test -z "$$unformatted" || { echo "not gofmt-ed: $$unformatted"; exit 1; }
	$(GO) vet $(PACKAGES)
	$(GO) tool staticcheck $(PACKAGES)
	$(GO) tool depguard $(PACKAGES)

vulnerabilities: ## look the dependencies up in the Go vulnerability database (needs the internet)
	$(GO) tool govulncheck $(PACKAGES)

clean: ## remove bin/ (data and the engine's cache stay)
	rm -rf $(BIN)
