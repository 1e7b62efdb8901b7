# Everything here needs Go, make, git and, for the race detector, a C compiler. The modules are those of go.work, found by
# the go command, or by make test by their directories: a new module needs a line in go.work and none here, unless it is
# to stay outside of the workspace (BESIDE).

SHELL := /bin/sh
.DEFAULT_GOAL := help

# Without the directory's path in what is compiled, the build cache answers for our own packages in every clone, and for
# the explorers' verdicts. Without what a debugger reads (DWARF and symbols; stack traces and profiles do not) the compiler
# has a sixth less to do, and the linker a quarter.
FLAGS := -trimpath -gcflags=all=-dwarf=false -ldflags=-s
export GOFLAGS := $(strip $(filter-out $(FLAGS),$(GOFLAGS)) $(FLAGS))
# As a release is built. The race detector needs cgo (RACETEST below).
export CGO_ENABLED := 0

# A test fails by its own deadlines. This one only ends a package whose tests hang. It is three times what the slowest
# was ever seen to take: internal/machine, 19 minutes on a busy machine. Of those with the race detector test/natsstore
# took six, at a load of 18.
TIMEOUT  ?= 60m
SEEDS    ?= 10000
# The first seed of make sim; 0 draws one. Equal seeds give equal runs of the core.
BASE     ?= 1
FUZZTIME ?= 30s
BENCH    ?= ./test/labs/bench
ARGS     ?=
# The database of known vulnerabilities; make vuln VULNFLAGS=-require fails where it cannot be reached.
VULNDB    ?= https://vuln.go.dev
VULNFLAGS ?=
# Of release-snapshot. test/labs/release has the same one, so that one compiles for the other.
VERSION   ?= v0.1.0-next
# How many packages make labs tests at once. 1 has none run beside another, for a machine on which they miss deadlines.
AT_ONCE   ?= 3
PLATFORMS ?= linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64
VETTED    ?= darwin/arm64 windows/amd64

MODULES = $(shell go list -m -f '{{.Dir}}')
# Tools are built once per version of Go: a linter built with an older one refuses newer code.
BIN    := $(CURDIR)/.bin/$(shell go env GOVERSION)
LINTER := $(BIN)/golangci-lint
GORELEASER := $(BIN)/goreleaser-v2.15.1
# The tools' module is not part of the workspace (see tools/go.mod).
TOOLS  := cd tools && GOWORK=off
# Nor are those of the comparison and of the example operator (see their go.mod).
COMPARE := cd test/labs/compare && GOWORK=off
OPERATOR := cd examples/operator && GOWORK=off
BESIDE  := tools test/labs/compare examples/operator

.PHONY: help
help: ## show this list; the times are those of two cores, with everything built
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' Makefile
	@echo "  fmt and operator build the linter into .bin first (three minutes of a processor), check goreleaser, too (four): once, then in seconds"

.PHONY: demo
demo: ## watch a live election on an embedded NATS server (ARGS="--workers 3"; until you end it)
	@# For NATS alone, which is less to fetch and to compile, unless it is to play elsewhere.
	go run $(if $(findstring --store,$(ARGS)),,-tags natsonly) ./cmd/leader demo $(ARGS)

# What the race detector is not for: parts without a goroutine, where it finds nothing and takes ten times as long. What
# PLAIN needs is compiled without the race detector anyway, for the programs that the tests build and for the random
# schedules below. Among it is the command as a whole, which has no goroutine outside of its packages below internal.
PURE    := ./internal/machine ./internal/specification ./internal/record ./internal/preference ./tasks/internal/core
PLAIN   := ./cmd/leader $(addprefix ./cmd/leader/internal/,archive bucket output rights stores version) \
	./fence/sqlfence ./inspect ./internal/boundaries ./store \
	$(addprefix ./store/natsstore/internal/,feed pattern registry request retry watch wire) \
	./tasks/wire ./test/agent $(addprefix ./test/labs/chaos/internal/,history mutant results schedule) ./test/internal/reporting \
	./test/internal/storefigures
# Left to make labs are the labs' own packages, and what a new machine compiles or fetches for long: the modules of the
# stores besides NATS, with their clients, six minutes of a processor. So make test tests a command for NATS alone (the
# tag natsonly), and make labs the whole command. Of the others the lab of clocks compiles Go's own packages anew, for two
# processors; the lab of metrics is Prometheus itself; the example of a web service and the tests of manifests know
# Kubernetes; two examples are over SQLite; and the modules as a proxy will serve them require all that any of them does.
OTHERS := /(store/(redis|pg|mysql|etcd|consul|k8s|s3|gcs|mongo)store|discovery/(etcd|consul|k8s)discovery|leaderkube)(/|$$)
LABS   := /(test/(fence/sqlfence|fence/stalewriter|databases|dash|metrics|migrate|proxy|stores|chaos/internal/skew)|examples/web)(/|$$)|$(OTHERS)
# Of the labs, without the race detector: nothing of these has a goroutine but store/feed, which make test tests. SQLite is
# translated from C, and takes several times as long with it.
QUIET  := ./examples ./examples/scheduler ./examples/sqlitestore ./test/labs/release
# What make labs tests once more, with all stores.
WHOLE  := /cmd/leader(/internal/(announce|stores))?$$
empty   :=
space   := $(empty) $(empty)
paths    = /($(subst $(space),|,$(patsubst ./%,%,$(1))))
# The modules outside of the workspace.
OUTSIDE := ^\.$(call paths,$(BESIDE))(/|$$)
# For what computes beside tests that wait for leases: where Linux has such a class, with the time that nobody else wants.
IDLY   := $(shell chrt --idle 0 true 2>/dev/null && echo chrt --idle 0 || echo nice -n 19)
# How long a command took, printed at its end: $(call begin,NAME) first, $(call took,NAME) last.
begin = @mkdir -p .out && date +%s > .out/$(1).begun
took  = @echo "$(1): passed in $$(( $$(date +%s) - $$(cat .out/$(1).begun) )) s"

.PHONY: quick
quick: ## what one runs after each edit: the root module in short, and natsstore on one server (2 minutes)
	$(call begin,quick)
	go test -short ./...
	cd test && go test -short -run '^TestConformance$$' ./natsstore
	$(call took,quick)

.PHONY: picture
picture: ## play the demo and draw docs/demo.svg, what its terminal shows; and docs/dash.png, the page of leader dash (a minute)
	cd cmd/leader && go test -count=1 -run TestPicture ./internal/demo -args -picture $(CURDIR)/docs/demo.svg
	go run ./test/labs/dash/install
	cd test/labs/dash && go test -count=1 -run TestPictureForTheReadme . -args -picture $(CURDIR)/docs/dash.png

# The modules are served and the variables of .goreleaser.yaml set by test/labs/release, whose test then starts what was built.
.PHONY: release-snapshot
release-snapshot: $(GORELEASER) ## have goreleaser build what a release consists of into .out/release, and start it (the first time half an hour of a processor)
	go run ./test/labs/release -version $(VERSION) -goreleaser $(GORELEASER) snapshot
	cd test && go test -count=1 -v -run '^(TestTheSnapshot|TestTheProgramThatAUserInstalls|TestAProgramMayRequireEveryModule)$$' ./release -args -snapshot $(CURDIR)/.out/release -snapshot-version $(VERSION)

# make check vets all of it, with the linter. To vet as well while testing takes a new machine 80 s of a processor.
GOTEST := go test -vet=off -timeout $(TIMEOUT)
# raced.sh has the programs that a test builds without cgo, as everywhere.
RACETEST := CGO_ENABLED=1 $(GOTEST) -race -exec "'$(CURDIR)/tools/raced.sh'"
# $(call TESTED,PATTERN): the packages that have tests, without those whose directories match. They are found by directory,
# since go list work reads what all packages import: a new machine would fetch the clients of other stores to test none.
TESTED = go list -e -f '{{if or .TestGoFiles .XTestGoFiles .InvalidGoFiles}}{{.ImportPath}}{{end}}' $$( \
	find . -name '*_test.go' ! -path './.*' | sed 's|/[^/]*$$||' | sort -u | grep -Ev '/testdata(/|$$)|$(1)')

.PHONY: test
test: ## run the tests of all modules but those of make labs, shuffled, with the race detector where there are goroutines (some 8 minutes)
	$(call begin,test)
	@# First of all, and once: many tests build the command, and those that do so at once each compile what the cache lacks.
	@go list -export -tags natsonly ./cmd/leader >/dev/null
	@# Beside each other, since the tests wait for leases more than they compute, and the explorers compute alone.
	@$(MAKE) --no-print-directory -j3 worlds raced rest
	@# The machine's own, which nothing here installs: so it is said, also by CI, and LEADER_CLIENTS=required demands them.
	@for program in python3 node; do command -v $$program >/dev/null || \
		echo "test: SKIPPED, NOT TESTED: the client of leader agent for $$program, which is not here"; done
	$(call took,test)

# They are functions of their source, so the build cache may answer.
.PHONY: worlds
worlds: ## part of make test: visit every world within the explorers' bounds (seconds; as long as make test after a change of the core)
	$(IDLY) $(GOTEST) $(PURE)

# As an environment, since the tests build programs, too.
raced rest: export GOFLAGS := $(strip $(GOFLAGS) -tags=natsonly)

.PHONY: raced
raced: ## part of make test: the tests of what has goroutines, with the race detector (as long as make test)
	@# Three packages at a time, since many wait for leases more than they compute.
	packages=$$($(call TESTED,$(OUTSIDE)|$(LABS)|$(call paths,$(PURE) $(PLAIN) $(QUIET))$$)) && $(RACETEST) -p 3 -shuffle=on -count=1 $$packages

# One package at a time, beside those.
.PHONY: rest
rest: ## part of make test: what is not raced, and panics at random (not timed alone)
	@# What takes several times as long with the race detector, and is the same code as above: all random schedules, of which
	@# there are a few above, servers in a cluster, and thousands of watches.
	$(GOTEST) -p 1 -shuffle=on -count=1 -run '^(TestSimulation|TestRolesSettleEvenlyWhateverHappened|TestConformance(InACluster|ThroughALeafNode)|TestAThousandWatchesShareOneGoroutine|TestPatternWatchOfTenThousandKeysTakesOneGoroutineAndOneConsumerAtMost)$$' . ./test/natsstore
	$(GOTEST) -p 1 -shuffle=on -count=1 $(PLAIN)
	@# Once more, with panics at random in each goroutine of ours. Last, since on a new machine the others compile by then
	@# what these need, too.
	$(RACETEST) -p 1 -count=1 -tags faults -run "TestFaults|TestAPanic" . ./advisory
	cd test && $(RACETEST) -p 1 -count=1 -tags faults -run TestAPanicOf ./natsstore

.PHONY: labs
labs: ## run the guards and stores on real servers, the whole command, the page in a real browser, slices of fire lab and comparison (10 minutes; the first time the servers are built, 20 more; SERVERS=skip leaves out those)
	$(call begin,labs)
	@echo "labs: PostgreSQL, PgBouncer, MariaDB, Redis and Chromium are looked for; what is absent is fetched from Debian into your cache, once"
	go run ./test/labs/databases/install
	go run ./test/labs/stores/etcdlab/install
	go run ./test/labs/dash/install
	@if [ "$(SERVERS)" = skip ]; then echo "labs: SERVERS=skip: no server is built"; else $(MAKE) --no-print-directory servers; fi
	@# Beside the others runs a slice of the comparison, which waits for leases: of its 109 s it computes for 21. Then, also
	@# beside them, the example operator.
	@# What takes minutes to build is left out where SERVERS=skip and no earlier run has built it.
	@out='^$$'; look() { go run ./test/labs/stores/$$1/install -look || out="$$out|/test/labs/stores/($$2)$$"; }; \
		look objectlab 's3store|gcsstore'; look consullab 'consulstore|consuldiscovery'; \
		tags=$$(go run ./test/labs/stores/kubelab/install -look) || out="$$out|/test/labs/stores/(k8sstore|k8sdiscovery|manifests)$$"; \
		go run ./test/labs/stores/ferretlab/install -look || [ -n "$$LEADER_MONGODB_URI" ] || out="$$out|/test/labs/stores/mongostore$$"; \
		[ -n "$$LEADER_MONGODB_URI" ] || echo "labs: SKIPPED, NOT TESTED: the store for MongoDB, unless LEADER_MONGODB_URI names a replica set"; \
		failed=0; { beside=0; ($(COMPARE) $(GOTEST) -count=1 ./...) || beside=1; \
			[ -z "$$tags" ] || ($(OPERATOR) LEADER_KUBE=required $(GOTEST) -count=1 ./...) || beside=1; \
			exit $$beside; } & beside=$$!; \
		[ $(AT_ONCE) -gt 1 ] || wait $$beside || failed=1; \
		$(RACETEST) -p $(AT_ONCE) -shuffle=on -count=1 $$tags $$(go list work | grep -E '$(LABS)|$(WHOLE)' | grep -Ev "$$out"); \
		status=$$?; [ $(AT_ONCE) = 1 ] || wait $$beside || failed=1; [ $$failed = 0 ] || status=1; \
		[ -n "$$LEADER_MONGODB_URI" ] || out="$$out|/test/labs/stores/mongostore$$"; \
		stores() { go list work | grep -E '/test/labs/stores/([a-z0-9]+store|redis)$$' | grep "$$1" "$$out" | sed 's|.*/||' | paste -s -d ' ' -; }; \
		echo "labs: stores whose tests ran, where their servers could be had: $$(stores -Ev); left out: $$(stores -E | grep . || echo none)"; exit $$status
	$(GOTEST) -p $(AT_ONCE) -shuffle=on -count=1 $(QUIET)
	@# On PostgreSQL 18 where make postgresql18 was: what may depend on the version, in some ten seconds.
	@if go run ./test/labs/databases/install -only postgresql18 -look; then cd test/labs/stores && LEADER_POSTGRESQL=18 $(RACETEST) -count=1 \
		-run '^(TestElections|TestShortHistoriesAreLinearizable)$$' ./pgstore -args -histories 50; fi
	@# By themselves and without the race detector: what they demand is traffic, not speed.
	@# The fire lab also has to condemn a library with a bug, since a lab that cannot fail shows nothing,
	@# and one without a margin, which is a bug only where clocks run at different rates. From this seed on six rounds have
	@# leases of different lengths, and records that expire: with a marker, unseen, and too early.
	go run ./test/labs/chaos --seed 588 --rounds 6 --episodes 4
	go run ./test/labs/chaos --mutant from-the-answer
	go run ./test/labs/chaos --mutant trust-without-margin
	@# 10,000 tasks of a leader, while leaders and workers are killed and frozen.
	go run ./test/reach/tasks -fire
	go run ./test/reach/tasks -fire -grpc
	$(call took,labs)

.PHONY: servers
servers: kube objects consul ferretdb postgresql18 galera ## build or fetch the servers of the stores' tests, once (20 minutes; make labs does so, too)

.PHONY: objects
objects: ## build the servers of S3 and of Cloud Storage that the tests need, once (4 minutes of a processor); without them they are skipped
	go run ./test/labs/stores/objectlab/install

.PHONY: kube
kube: ## build the kube-apiserver that the tests of Kubernetes need into your cache (once; 6 minutes of one processor, 100 MB fetched)
	go run ./test/labs/stores/kubelab/install

.PHONY: check
check: ## format, lint (with go vet), vulnerabilities, go.mod files, builds for other systems, goreleaser's snapshot of a release (six minutes, and three for the snapshot)
	$(call begin,check)
	@$(MAKE) --no-print-directory subjects format lint vuln tidy-check
	@$(MAKE) --no-print-directory cross PLATFORMS="$(VETTED)"
	@$(MAKE) --no-print-directory release-snapshot
	$(call took,check)

.PHONY: precommit
precommit: fmt ## format the code, then check, test and run the labs (the sum of the three)
	@$(MAKE) --no-print-directory check
	@$(MAKE) --no-print-directory test
	@$(MAKE) --no-print-directory labs

.PHONY: bench
bench: ## measure, and print the table (3 minutes; ARGS=... goes to the benchmark)
	go run $(BENCH) $(ARGS)

.PHONY: compare
compare: ## measure beside client-go and etcd, and over each store whose server is here, judge, write docs/comparison.md (13 minutes; ARGS=--quick: a slice)
	@$(COMPARE) go build -o $(BIN)/compare .
	@$(COMPARE) $(BIN)/compare $(ARGS)

.PHONY: operator
operator: $(LINTER) ## lint the example operator, and test it on a real API server (make kube first; 20 s, the first time some minutes; make labs does so, too)
	@$(OPERATOR) $(LINTER) run ./...
	@$(OPERATOR) LEADER_KUBE=required go test -count=1 -timeout $(TIMEOUT) ./...

.PHONY: consul
consul: ## build the Consul server that its store's tests need, once (7 minutes of a processor); without it they are skipped
	go run ./test/labs/stores/consullab/install

.PHONY: ferretdb
ferretdb: ## build the FerretDB that the store for MongoDB has to refuse, once (a minute or two); without it that test is skipped
	go run ./test/labs/stores/ferretlab/install

.PHONY: postgresql18
postgresql18: ## fetch PostgreSQL 18 with npm, once (24 MB; a second where it is there); without it the store for PostgreSQL is tested on the machine's version alone
	go run ./test/labs/databases/install -only postgresql18

.PHONY: galera
galera: ## fetch Galera, with which a MariaDB server is one that its store has to refuse, once (1 MB; a second where it is there); without it that test is skipped
	go run ./test/labs/databases/install -only galera

.PHONY: stores
stores: ## measure elections over each kind of store, and write the tables of docs/stores.md (6 minutes; make servers first)
	go run ./test/labs/databases/install
	go run ./test/labs/stores/etcdlab/install
	go run ./test/labs/stores/objectlab/install
	go run ./test/labs/stores/consullab/install
	go run ./test/labs/stores/kubelab/install
	cd test/labs/stores && LEADER_CONSUL=required LEADER_KUBE=required go test -count=1 -timeout $(TIMEOUT) -run TestFigures ./figures -args -rounds 40 -page $(CURDIR)/docs/stores.md

.PHONY: sim
sim: ## run SEEDS=10000 simulated fault schedules of the core and of the runtime, the core's from seed BASE=1 on (50 s of a processor for 1,000)
	go test -count=1 -timeout 60m -v -run '^TestSimulation$$' ./internal/machine -args -sim.seeds=$(SEEDS) -sim.base=$(BASE)
	@mkdir -p .out
	go test -count=1 -timeout 60m -v -run '^TestSimulation$$' . -args -seeds=$(SEEDS) > .out/sim.log; status=$$?; \
		grep -Ev '^ *(=== |--- PASS: TestSimulation/)' .out/sim.log; exit $$status

.PHONY: explore
explore: ## visit every world of larger bounds than make test has time for, and judge G5 in each (an hour, up to 17 GB)
	go test -count=1 -timeout 4h -v -run '^TestExplore$$' ./internal/machine -args -explore.deep
	go test -count=1 -timeout 4h -v ./internal/specification -args -spec.large

.PHONY: mutants
mutants: ## put each bug that the field has had back, demand that it is caught, and write the table of docs/mutants.md (4 to 30 minutes)
	go run ./test/mutants -write docs/mutants.md

.PHONY: gremlins
gremlins: ## let gremlins mutate the core, file after file (half an hour; docs/mutants.md tells of the survivors; ARGS=write.go: one file)
	@mkdir -p $(BIN)
	GOBIN=$(BIN) go install github.com/go-gremlins/gremlins/cmd/gremlins@v0.6.0
	@# File after file, since a run that is ended early tells nothing of what it has done. -count=1, since gremlins gives a
	@# mutant a multiple of the time that the tests took without it: from the cache they take none, and every mutant times
	@# out. No --test-cpu: version 0.6.0 passes it as a flag that does not exist, and every mutant counts as killed.
	@files=$$(cd internal/machine && ls *.go | grep -v _test.go); \
	for file in $(or $(ARGS),$$files); do \
		set --; \
		for other in $$files; do [ $$other = $$file ] || set -- "$$@" -E "(^|/)$$other\$$"; done; \
		echo "gremlins: $$file"; \
		GOFLAGS="-short -vet=off -count=1" $(BIN)/gremlins unleash --workers 1 --timeout-coefficient 10 --invert-logical "$$@" \
			./internal/machine || exit 1; \
	done

.PHONY: chaos
chaos: ## set candidates and servers on fire for FOR=10m, and write docs/chaos.md
	go run ./test/labs/chaos --for $(or $(FOR),10m) --page docs/chaos.md $(ARGS)

.PHONY: soak
soak: ## one fault a minute for FOR=24h, watching what grows, and write docs/soak.md
	go run ./test/labs/chaos soak --for $(or $(FOR),24h) --page docs/soak.md $(ARGS)

.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZTIME=30s (ten of them, five minutes)
	@go list work | while read -r pkg; do \
		targets=$$(go test -list '^Fuzz' "$$pkg") || { echo "$$targets"; exit 1; }; \
		for target in $$(echo "$$targets" | grep '^Fuzz'); do \
			echo "fuzz: $$pkg $$target"; \
			go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) "$$pkg" || exit 1; \
		done; \
	done

.PHONY: cover
cover: ## measure the root module's coverage by the tests of all modules, labs included (not timed; longer than make test and make labs, since all is compiled once more)
	@mkdir -p .out
	go test -count=1 -timeout $(TIMEOUT) -coverprofile=.out/cover.out \
		-coverpkg="$$(cd $(CURDIR) && GOWORK=off go list ./... | paste -s -d , -)" work
	@go tool cover -func=.out/cover.out | tail -n 1
	@go tool cover -html=.out/cover.out -o .out/cover.html && echo "cover: .out/cover.html"

.PHONY: fmt
fmt: $(LINTER) ## format the code (15 s of a processor)
	$(LINTER) fmt

.PHONY: tidy
tidy: ## tidy go.mod and go.sum of every module (25 s of a processor)
	@tools/tidy.sh $(BESIDE)

# The parts of check.

# Commits that are not pushed yet, for what is pushed stays as it is. A clone without origin/main has none.
.PHONY: subjects
subjects: ## part of make check: look at the subjects of commits that are not pushed yet (at once)
	@echo "check: subjects of commits"
	@if git rev-parse --quiet --verify origin/main >/dev/null 2>&1; then \
		git log --no-merges --format=%s origin/main.. | awk 'length > 72 { print "check: longer than 72 columns: " $$0; bad = 1 } END { exit bad }' >&2; \
	fi

.PHONY: format
format: $(LINTER) ## part of make check: say what is not formatted (10 s of a processor)
	@echo "check: format"
	@$(LINTER) fmt --diff || { echo "check: not formatted: run make fmt" >&2; exit 1; }

.PHONY: lint
lint: $(LINTER) ## part of make check: lint every module, with go vet (nine minutes of a processor and 5 GB; seconds where nothing changed)
	@# The modules of the workspace by one run: by one run for each, what they share is loaded and judged again and again, and
	@# it takes three times as long.
	@echo "check: lint the workspace"
	@$(LINTER) run $(addsuffix /...,$(MODULES))
	@echo "check: lint cmd/leader for NATS alone"
	@cd cmd/leader && $(LINTER) run --build-tags natsonly . ./internal/announce/... ./internal/stores/...
	@echo "check: lint tools"
	@$(TOOLS) $(LINTER) run ./...
	@echo "check: lint test/labs/compare"
	@$(COMPARE) $(LINTER) run ./...
	@echo "check: lint examples/operator"
	@$(OPERATOR) $(LINTER) run ./...

.PHONY: vuln
vuln: $(LINTER) ## part of make check: look for known vulnerabilities in what we require (VULNFLAGS=-require: fail where the database cannot be reached; not timed)
	@echo "check: known vulnerabilities"
	@modules="$(MODULES)"; $(TOOLS) go run ./vulncheck -tool $(BIN)/govulncheck -db $(VULNDB) $(VULNFLAGS) $$modules

.PHONY: tidy-check
tidy-check: ## part of make check: see that go.mod and go.sum of every module are tidy (15 s of a processor)
	@echo "check: go.mod and go.sum of every module"
	@tools/tidy.sh -check $(BESIDE)

# What people import is compiled for each platform; the command is linked by release-snapshot. vet type-checks their tests besides, on one
# platform of each system but the one that runs them: no file of ours is for one architecture alone, and all of them have
# the same sizes. The labs and examples, with the servers that they embed, would take most of the time. With the flags of
# release-snapshot: what one compiles of other people's modules the other need not.
BENCHES := /(test|examples)(/|$$)

.PHONY: cross
cross: ## build for six platforms (make check: for one of each other system, with go vet; 80 s of a processor for those two)
	@if git ls-files '*_amd64*.go' '*_arm64*.go' | grep .; then \
		echo "check: a file for one architecture: let VETTED be all of PLATFORMS" >&2; exit 1; \
	fi
	@for platform in $(PLATFORMS); do \
		echo "check: build for $$platform"; \
		export GOFLAGS=-trimpath GOOS=$${platform%/*} GOARCH=$${platform#*/}; \
		packages=$$(go list -f '{{if .GoFiles}}{{.ImportPath}}{{end}}' work | grep -Ev '$(BENCHES)') && \
			go build $$packages || exit 1; \
		case " $(VETTED) " in *" $$platform "*) go vet $$packages || exit 1;; esac; \
	done

.PHONY: tools
tools: $(LINTER) $(GORELEASER) ## build the linters and goreleaser into .bin (once, six minutes of a processor)

# All tools are built by one command; the linter's file stands for them.
$(LINTER): tools/go.mod tools/go.sum
	@echo "building the tools that tools/go.mod pins (once, three minutes of a processor)"
	@$(TOOLS) GOBIN=$(BIN) go install tool
	@touch $@

# Not in tools/go.mod, which would require hundreds of modules for it.
$(GORELEASER):
	@echo "building goreleaser (once, four minutes of a processor)"
	@mkdir -p $(BIN)/tmp
	@GOWORK=off CGO_ENABLED=0 GOBIN=$(BIN)/tmp go install -ldflags="-s -w" github.com/goreleaser/goreleaser/v2@$(subst goreleaser-,,$(notdir $@))
	@mv $(BIN)/tmp/goreleaser $@ && rmdir $(BIN)/tmp
