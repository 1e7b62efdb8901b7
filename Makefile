# Needs Go, make, git, and for make race a C compiler.
#
# The directory of a package decides its stage. Labs are test/labs, the examples,
# and the modules of clients below store and discovery: they need servers or a
# browser, or take minutes to fetch and to compile. make test and make race run
# all other packages. Modules are found by their go.mod.

SHELL := /bin/sh
.DEFAULT_GOAL := help

# Without paths the build cache serves every clone. Without debug information,
# which neither stack traces nor profiles need, there is a sixth less to compile
# and a quarter less to link.
FLAGS := -trimpath -gcflags=all=-dwarf=false -ldflags=-s
export GOFLAGS := $(strip $(filter-out $(FLAGS),$(GOFLAGS)) $(FLAGS))
# As a release is built. The race detector needs cgo.
export CGO_ENABLED := 0
# Go's test cache sees a test's packages, its environment, and the files of its
# own module. Tests that read other files, or build programs, read this sum of
# all files, so that any change runs them again.
export LEADER_TREE := $(shell find . -type f ! -path './.*' ! -path '*/__pycache__/*' -exec cksum {} + | sort | cksum)

ARGS     ?=
SEEDS    ?= 10000
BASE     ?= 1
FUZZTIME ?= 30s
VERSION  ?= v0.1.0-next
# What make labs and make servers take: all; ci, the slice of .ci/run; or the
# names of servers.
SLICE    ?= all

BIN      := $(CURDIR)/.bin/$(shell go env GOVERSION)
LINTER   := $(BIN)/golangci-lint
RELEASER := $(BIN)/goreleaser-v2.15.1
# The modules outside of the workspace. Each go.mod has the reason.
BESIDE   := tools test/labs/compare examples/operator
OUTSIDE  := GOWORK=off
CLIENTS  := $(shell find store discovery -name go.mod ! -path '*/judge/*' -exec dirname {} + | sort | paste -s -d '|' -)
LABS     := test/labs|examples|$(CLIENTS)
FOUND     = find . -name '*_test.go' ! -path './.*' ! -path '*/testdata/*' -exec dirname {} + | sort -u
TESTED    = $(shell $(FOUND) | grep -Ev '^\./(tools|$(LABS))(/|$$)')
LABTESTS  = $(shell $(FOUND) | grep -E '^\./($(LABS))(/|$$)' | grep -Ev '^\./($(subst $() ,|,$(BESIDE)))(/|$$)')
# CI's slice: the servers that it demands, and the labs of these.
CISERVERS := postgresql redis etcd chromium
CITESTS    = $(filter ./store/pgstore% ./store/redisstore% ./store/etcdstore% ./test/labs/dash% ./test/labs/chaos% $(addprefix ./test/labs/stores/,pgstore redis etcdstore),$(LABTESTS))
# Tests fail by their own deadlines; the limit ends a package that hangs. Linting
# vets.
GOTEST   := go test -vet=off -timeout 40m
RACETEST := CGO_ENABLED=1 $(GOTEST) -race -count=1 -exec "'$(CURDIR)/tools/raced.sh'"
# No file has the time: Go's test cache takes the directory of one that is new
# for changed.
BEGUN    := $(shell date +%s)
took      = @echo "$@: passed in $$(($$(date +%s) - $(BEGUN))) s"

.PHONY: help
help: ## show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-17s %s\n", $$1, $$2 }' Makefile

.PHONY: demo
demo: ## watch a live election on an embedded NATS server, and hurt it (ARGS="--workers 3")
	go run $(if $(findstring --store,$(ARGS)),,-tags natsonly) ./cmd/leader demo $(ARGS)

.PHONY: quick
quick: ## after each edit: the root module in short, and its store on one NATS server
	go test -short ./...
	go test -short -run '^TestConformance$$' ./test/natsstore
	$(took)

# The explorers first, since they compute longest; four packages at a time, since
# most wait for leases.
.PHONY: test
test: ## test all that needs no server but NATS; Go answers from its cache for what did not change
	@$(GOTEST) -p 4 -tags natsonly ./internal/machine $(TESTED)
	@for program in python3 node; do command -v $$program >/dev/null || \
		echo "test: SKIPPED, NOT TESTED: the client of leader agent for $$program, which is not here"; done
	$(took)

.PHONY: race
race: ## the same, shuffled, with the race detector, where code or tests have goroutines; then panics at random
	@$(RACETEST) -p 3 -shuffle=on -tags natsonly $$(for dir in $(TESTED); do \
		! grep -qE '^[[:space:]]*go |"sync(/atomic)?"' $$dir/*.go || echo $$dir; done)
	@$(RACETEST) -p 1 -tags natsonly,faults -run 'TestFaults|TestAPanic' . ./advisory ./test/natsstore
	$(took)

.PHONY: labs
labs: servers ## stores, guards, page and examples on real servers, raced, and slices of the fire lab (SLICE=ci: some of it)
ifeq ($(SLICE),ci)
	@LEADER_SERVERS="$(CISERVERS)" $(GOTEST) -count=1 -shuffle=on -p 2 $(CITESTS)
	go run ./test/labs/chaos --seed 588 --rounds 2 --episodes 4
	go run ./test/labs/chaos --mutant from-the-answer
else
	@$(RACETEST) -shuffle=on -p 2 -tags kube $(LABTESTS)
	cd test/labs/compare && $(OUTSIDE) $(GOTEST) -count=1 ./...
	cd examples/operator && $(OUTSIDE) $(GOTEST) -count=1 ./...
	$(GOTEST) -count=1 ./cmd/leader
	LEADER_POSTGRESQL=18 $(GOTEST) -count=1 -run '^TestStore$$/^(Elections|HistoriesAreLinearizable)$$' ./test/labs/stores/pgstore -args -histories 50
	@# From this seed on six rounds have leases of different lengths, and records that expire: with a marker, unseen, too early.
	go run ./test/labs/chaos --seed 588 --rounds 6 --episodes 4
	go run ./test/labs/chaos --mutant from-the-answer
	go run ./test/labs/chaos --mutant trust-without-margin
	go run ./test/reach/tasks -fire
	go run ./test/reach/tasks -fire -grpc
endif
	$(took)

.PHONY: servers
servers: ## get the labs' servers that are not here, once (20 minutes; SLICE="redis etcd": these)
	go run ./test/labs/servers/install $(if $(filter all,$(SLICE)),,$(if $(filter ci,$(SLICE)),$(CISERVERS),$(SLICE)))

# The subjects are those of commits that are not pushed yet. On other systems
# what people import is built, and vetted with its tests.
.PHONY: check
check: $(LINTER) ## format, lint (with vet), vulnerabilities, go.mod files, subjects of commits, builds for other systems
	@git log --no-merges --format=%s origin/main.. 2>/dev/null | awk 'length > 72 { print "check: longer than 72 columns: " $$0; bad = 1 } END { exit bad }'
	@$(LINTER) fmt --diff || { echo "check: not formatted: run make fmt" >&2; exit 1; }
	$(LINTER) run $(shell go list -m -f '{{.Dir}}/...')
	cd cmd/leader && $(LINTER) run --build-tags natsonly . ./internal/announce/... ./internal/stores/...
	@for dir in $(BESIDE); do echo "check: lint $$dir"; (cd $$dir && $(OUTSIDE) $(LINTER) run ./...) || exit 1; done
	cd tools && $(OUTSIDE) go run ./vulncheck -tool $(BIN)/govulncheck $(ARGS) $(shell go list -m -f '{{.Dir}}')
	tools/tidy.sh -check $(BESIDE)
	go test -run "^Test(Reference|Help)" ./cmd/leader
	@for platform in darwin/arm64 windows/amd64; do \
		echo "check: build for $$platform"; \
		export GOFLAGS=-trimpath GOOS=$${platform%/*} GOARCH=$${platform#*/}; \
		packages=$$(go list -f '{{if .GoFiles}}{{.ImportPath}}{{end}}' work | grep -Ev '/(test|examples)(/|$$)') && \
			go build $$packages && go vet $$packages || exit 1; \
	done
	GOARCH=386 go build -tags natsonly ./... ./cmd/leader
	$(took)

.PHONY: fmt
fmt: $(LINTER) ## format the code
	$(LINTER) fmt

.PHONY: tidy
tidy: ## tidy go.mod and go.sum of every module
	@tools/tidy.sh $(BESIDE)

.PHONY: bench
bench: ## measure this project alone, and print the table (4 minutes)
	go run ./test/labs/bench $(ARGS)

.PHONY: compare
compare: ## measure beside client-go, etcd and the stores, and write docs/comparison.md (13 minutes; ARGS=--quick: a slice)
	@cd test/labs/compare && $(OUTSIDE) go build -o $(BIN)/compare . && $(OUTSIDE) $(BIN)/compare $(ARGS)

.PHONY: stores
stores: servers ## measure elections over each store, and write the tables of docs/stores.md (6 minutes)
	cd test/labs/stores && LEADER_SERVERS=all go test -count=1 -timeout 60m -run TestFigures ./figures -args -rounds 40 -page $(CURDIR)/docs/stores.md

.PHONY: sim
sim: ## run SEEDS=10000 simulated fault schedules of the core, from seed BASE=1 on, and of the runtime
	go test -count=1 -timeout 60m -v -run '^TestSimulation$$' ./internal/machine -args -sim.seeds=$(SEEDS) -sim.base=$(BASE)
	@mkdir -p .out
	go test -count=1 -timeout 60m -v -run '^TestSimulation$$' . -args -seeds=$(SEEDS) >.out/sim.log; status=$$?; \
		grep -Ev '^ *(=== |--- PASS: TestSimulation/)' .out/sim.log; exit $$status

.PHONY: explore
explore: ## visit every world of larger bounds than make test has time for (an hour, up to 17 GB)
	go test -count=1 -timeout 4h -v -run '^TestExplore$$' ./internal/machine -args -explore.deep
	go test -count=1 -timeout 4h -v ./internal/specification -args -spec.large

.PHONY: mutants
mutants: ## put each bug that the field has had back, demand that it is caught, and write docs/mutants.md (4 to 30 minutes)
	go run ./test/mutants -write docs/mutants.md

.PHONY: chaos
chaos: ## set candidates and servers on fire for FOR=10m, and write docs/chaos.md
	go run ./test/labs/chaos --for $(or $(FOR),10m) --page docs/chaos.md $(ARGS)

.PHONY: soak
soak: ## one fault a minute for FOR=24h, watching what grows, and write docs/soak.md
	go run ./test/labs/chaos soak --for $(or $(FOR),24h) --page docs/soak.md $(ARGS)

.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZTIME=30s
	@for dir in $$(grep -rlE '^func Fuzz' --include='*_test.go' . | xargs -n 1 dirname | sort -u); do \
		for target in $$(grep -hoE '^func Fuzz[A-Za-z0-9_]*' $$dir/*_test.go | cut -c6-); do \
			echo "fuzz: $$dir $$target"; \
			go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$dir || exit 1; \
		done; \
	done

.PHONY: nightly
nightly: ## what takes hours: explore, sim, mutants, labs, chaos, fuzz, and a release
	@for target in explore sim mutants labs chaos fuzz release-snapshot; do $(MAKE) --no-print-directory $$target || exit 1; done

.PHONY: docs
docs: ## write what is generated: docs/cli.md, the tables of docs/stores.md, docs/demo.svg, docs/dash.png (a minute)
	go generate ./cmd/leader
	go test -count=1 ./test/internal/storefigures -args -update
	cd cmd/leader && go test -count=1 -run TestPicture ./internal/demo -args -picture $(CURDIR)/docs/demo.svg
	go run ./test/labs/servers/install chromium
	cd test/labs/dash && go test -count=1 -run TestPictureForTheReadme . -args -picture $(CURDIR)/docs/dash.png

.PHONY: release-snapshot
release-snapshot: $(RELEASER) ## build what a release consists of into .out/release, and start it (the first time half an hour of a processor)
	go run ./test/labs/release -version $(VERSION) -goreleaser $(RELEASER) snapshot
	go test -count=1 -v -run '^(TestTheSnapshot|TestTheProgramThatAUserInstalls|TestAProgramMayRequireEveryModule)$$' ./test/labs/release -args -snapshot $(CURDIR)/.out/release -snapshot-version $(VERSION)

# One command builds all tools, once per version of Go: a linter that was built
# with an older one refuses newer code.
$(LINTER): tools/go.mod tools/go.sum
	@echo "building the tools that tools/go.mod pins (once, three minutes of a processor)"
	@cd tools && $(OUTSIDE) GOBIN=$(BIN) go install tool
	@touch $@

# Not in tools/go.mod, which would require hundreds of modules for it.
$(RELEASER):
	@echo "building goreleaser (once, four minutes of a processor)"
	@mkdir -p $(BIN)/tmp
	@GOWORK=off GOBIN=$(BIN)/tmp go install -ldflags="-s -w" github.com/goreleaser/goreleaser/v2@$(subst goreleaser-,,$(notdir $@))
	@mv $(BIN)/tmp/goreleaser $@ && rmdir $(BIN)/tmp
