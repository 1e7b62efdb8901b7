# Needs Go, make, git, and for make race a C compiler. CONTRIBUTING.md explains
# the stages.

.DEFAULT_GOAL := help
.PHONY: help demo quick test race labs check servers fmt tidy bench compare stores sim quorum explore \
	mutants chaos soak fuzz nightly generate docs release-snapshot

# Without paths the build cache serves every clone. Without debug information,
# which neither stack traces nor profiles need, there is a sixth less to compile
# and a quarter less to link.
FLAGS := -trimpath -gcflags=all=-dwarf=false -ldflags=-s
export GOFLAGS := $(strip $(filter-out $(FLAGS),$(GOFLAGS)) $(FLAGS))
# As a release is built. The race detector needs cgo.
export CGO_ENABLED := 0
# The sum of all files. Tests that read files which Go's test cache does not see
# read this variable, so that any change runs them again.
export LEADER_TREE := $(shell find . -type f ! -path './.*' ! -path '*/__pycache__/*' -exec cksum {} + | sort | cksum)

ARGS     ?=
SEEDS    ?= 10000
BASE     ?= 1
FUZZTIME ?= 30s
VERSION  ?= v0.1.0-next
# For make labs and make servers: all, ci (the slice of .ci/run), or names of
# servers.
SLICE    ?= all

BIN        := $(CURDIR)/.bin/$(shell go env GOVERSION)
LINTER     := $(BIN)/golangci-lint
GORELEASER := v2.15.1
RELEASER   := $(BIN)/goreleaser@$(GORELEASER)/goreleaser
# The generator of make docs, in the versions of its lock file.
SITE       := $(CURDIR)/.bin/site
# The modules outside of the workspace. Each go.mod gives the reason.
BESIDE     := tools test/labs/compare examples/operator
# A stage whose packages cannot be listed fails, and does not run nothing.
packages    = packages=$$(tools/packages.sh $1 $(BESIDE)) &&
# The servers that the packages of CI's slice need.
CISERVERS  := postgresql redis etcd chromium
# Tests fail by their own deadlines; the limit ends a package that hangs. Linting
# vets.
GOTEST     := go test -vet=off -timeout 40m
RACETEST   := CGO_ENABLED=1 $(GOTEST) -race -count=1 -exec "'$(CURDIR)/tools/raced.sh'"
# No file holds the time: Go's test cache takes the directory of a new file for
# changed.
BEGUN      := $(shell date +%s)
took        = @echo "$@: passed in $$(($$(date +%s) - $(BEGUN))) s"

help: ## show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-17s %s\n", $$1, $$2 }' Makefile

# Not by go run, which fails after Ctrl-C whatever its program returns.
demo: ## watch a live election on an embedded NATS server, and hurt it (ARGS="--workers 3")
	@go build -buildvcs=false $(if $(findstring --store,$(ARGS)),,-tags natsonly) -o $(BIN)/leader ./cmd/leader
	@exec $(BIN)/leader demo $(ARGS)

quick: ## after each edit: the root module in short, and its store on one NATS server
	go test -short ./...
	go test -short -run '^TestConformance$$' ./test/natsstore
	$(took)

# The explorers first, since they compute longest; four packages at a time, since
# most wait for leases.
test: ## test all that needs no server but NATS; Go answers from its cache for what did not change
	@$(call packages,test) $(GOTEST) -p 4 -tags natsonly ./internal/machine $$packages
	@for program in python3 node; do command -v $$program >/dev/null || \
		echo "test: SKIPPED, NOT TESTED: the client of leader agent for $$program, which is not here"; done
	$(took)

race: ## the same, shuffled, with the race detector, where code or tests have goroutines; then panics at random
	@$(call packages,race) $(RACETEST) -p 3 -shuffle=on -tags natsonly $$packages
	@$(RACETEST) -p 1 -tags natsonly,faults -run 'TestFaults|TestAPanic' . ./advisory ./test/natsstore
	$(took)

# From seed 588 on, six rounds of the fire lab have leases of different lengths,
# and records that expire: with a marker, unseen, too early.
labs: servers ## stores, guards, page and examples on real servers, raced, and slices of the fire lab (SLICE=ci: some of it)
ifeq ($(SLICE),ci)
	@$(call packages,ci) LEADER_SERVERS="$(CISERVERS)" $(GOTEST) -count=1 -shuffle=on -p 2 $$packages
	go run ./test/labs/chaos --seed 588 --rounds 2 --episodes 4
	go run ./test/labs/chaos --mutant from-the-answer
else
	@$(call packages,labs) $(RACETEST) -shuffle=on -p 2 -tags kube $$packages
	cd test/labs/compare && GOWORK=off $(GOTEST) -count=1 ./...
	cd examples/operator && GOWORK=off $(GOTEST) -count=1 ./...
	$(GOTEST) -count=1 ./cmd/leader
	LEADER_POSTGRESQL=18 $(GOTEST) -count=1 -run '^TestStore$$/^(Elections|HistoriesAreLinearizable)$$' ./test/labs/stores/pgstore -args -histories 50
	go run ./test/labs/chaos --seed 588 --rounds 6 --episodes 4
	go run ./test/labs/chaos --mutant from-the-answer
	go run ./test/labs/chaos --mutant trust-without-margin
	go run ./test/reach/tasks -fire
	go run ./test/reach/tasks -fire -grpc
endif
	$(took)

servers: ## get the labs' servers that are not here, once (20 minutes; SLICE="redis etcd": these)
	go run ./test/labs/servers/install $(patsubst ci,$(CISERVERS),$(filter-out all,$(SLICE)))

check: $(LINTER) ## format, lint (with vet), vulnerabilities, language, go.mod files, subjects of commits, builds for other systems
	@BIN=$(BIN) ARGS="$(ARGS)" tools/check.sh $(BESIDE)
	$(took)

fmt: $(LINTER) ## format the code
	$(LINTER) fmt

tidy: ## tidy go.mod and go.sum of every module
	@tools/tidy.sh $(BESIDE)

bench: ## measure this project alone, and print the table (4 minutes)
	go run ./test/labs/bench $(ARGS)

compare: ## measure beside client-go, etcd and the stores, and write docs/evidence/comparison.md (20 minutes; ARGS=--quick: a slice)
	@cd test/labs/compare && GOWORK=off go build -o $(BIN)/compare . && GOWORK=off $(BIN)/compare $(ARGS)

stores: servers ## measure elections over each store, and write the tables of docs/reference/stores.md (6 minutes)
	cd test/labs/stores && LEADER_SERVERS=all go test -count=1 -timeout 60m -run TestFigures ./figures -args -rounds 40 -page $(CURDIR)/docs/reference/stores.md

sim: ## run SEEDS=10000 simulated fault schedules of the core, from seed BASE=1 on, and of the runtime
	go test -count=1 -timeout 60m -v -run '^TestSimulation$$' ./internal/machine -args -sim.seeds=$(SEEDS) -sim.base=$(BASE)
	@mkdir -p .out
	go test -count=1 -timeout 60m -v -run '^TestSimulation$$' . -args -seeds=$(SEEDS) >.out/sim.log; status=$$?; \
		grep -Ev '^ *(=== |--- PASS: TestSimulation/)' .out/sim.log; exit $$status

quorum: ## kill and wipe members of quorums 200 times, judge 1000 histories, and measure (some 40 minutes, on a machine that does nothing else)
	cd test && go test -count=1 -parallel 1 -timeout 2h -v -run 'Killed|EachFault|Wiped|Histories|Figures' ./quorum -args -kills 200 -wipes 200 -ttl 1s -histories 1000 -figures
	cd test/labs/stores && go test -count=1 -v -run Figures ./quorumstore -args -figures

explore: ## visit every world of larger bounds than make test has time for (an hour, up to 17 GB)
	go test -count=1 -timeout 4h -v -run '^TestExplore$$' ./internal/machine -args -explore.deep
	go test -count=1 -timeout 4h -v ./internal/specification -args -spec.large
	go test -count=1 -timeout 4h -v -run '^TestExplore$$' ./store/quorumstore/internal/ballot -args -explore.deep

mutants: ## put each bug that the field has had back, demand that it is caught, and write docs/evidence/mutants.md (4 to 30 minutes)
	go run ./test/mutants -write docs/evidence/mutants.md

chaos: ## set candidates and servers on fire for FOR=10m, and write docs/evidence/chaos.md
	go run ./test/labs/chaos --for $(or $(FOR),10m) --page docs/evidence/chaos.md $(ARGS)

soak: ## one fault a minute for FOR=24h, watching what grows, and write docs/evidence/soak.md
	go run ./test/labs/chaos soak --for $(or $(FOR),24h) --page docs/evidence/soak.md $(ARGS)

fuzz: ## run every fuzz target for FUZZTIME=30s
	@tools/fuzz.sh $(FUZZTIME)

nightly: ## what takes hours: explore, sim, mutants, labs, chaos, fuzz, the site, and a release
	@for target in explore sim mutants labs chaos fuzz docs release-snapshot; do $(MAKE) --no-print-directory $$target || exit 1; done

generate: ## write what is generated: docs/reference/commands.md, the tables of docs/reference/stores.md, docs/demo.svg, docs/dash.png (a minute)
	go generate ./cmd/leader
	go test -count=1 ./test/internal/storefigures -args -update
	cd cmd/leader && go test -count=1 -run TestPicture ./internal/demo -args -picture $(CURDIR)/docs/demo.svg
	go run ./test/labs/servers/install chromium
	cd test/labs/dash && go test -count=1 -run TestPictureForTheReadme . -args -picture $(CURDIR)/docs/dash.png

docs: $(SITE) ## build the documentation as a static site with search into .out/site (needs node and npm; a minute)
	@rm -rf $(SITE)/source .out/site && mkdir -p $(SITE)/source/.vitepress .out
	@cp -R README.md CONTRIBUTING.md SECURITY.md CHANGELOG.md docs $(SITE)/source && cp tools/site/config.mjs $(SITE)/source/.vitepress
	$(SITE)/node_modules/.bin/vitepress build $(SITE)/source

release-snapshot: $(RELEASER) ## build what a release consists of into .out/release, and start it (the first time half an hour of a processor)
	go run ./test/labs/release -version $(VERSION) -goreleaser $(RELEASER) snapshot
	go test -count=1 -v ./test/labs/release -args -snapshot $(CURDIR)/.out/release -snapshot-version $(VERSION)

# One command builds all tools, once per version of Go: a linter built with an
# older version refuses newer code.
$(LINTER): tools/go.mod tools/go.sum
	@echo "building the tools that tools/go.mod pins (once, three minutes of a processor)"
	@cd tools && GOWORK=off GOBIN=$(BIN) go install tool
	@touch $@

# Not in tools/go.mod, which would require hundreds of modules for it.
$(RELEASER):
	@echo "building goreleaser (once, four minutes of a processor)"
	@GOWORK=off GOBIN=$(@D) go install github.com/goreleaser/goreleaser/v2@$(GORELEASER)

$(SITE): tools/site/package.json tools/site/package-lock.json
	@mkdir -p $@ && cp $^ $@ && cd $@ && npm ci --ignore-scripts --no-audit --no-fund
	@touch $@
