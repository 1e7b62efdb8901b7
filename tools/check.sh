#!/bin/sh
# check.sh DIRECTORY...: checks the modules of the workspace, and the modules
# outside of it that the directories contain, for make check.
#
# BIN is the directory of the linters, ARGS holds arguments of tools/vulncheck.
set -eu
cd "$(dirname "$0")/.."
linter=$BIN/golangci-lint
modules=$(go list -m -f '{{.Dir}}')

step() { echo "check: $*"; }

# A pushed subject cannot be changed any more.
step subjects of commits
git log --no-merges --format=%s origin/main.. 2>/dev/null |
	awk 'length > 72 { print "check: longer than 72 columns: " $0; bad = 1 } END { exit bad }'

step format
"$linter" fmt --diff || { echo "check: not formatted: run make fmt" >&2; exit 1; }

step lint
"$linter" run $(printf '%s/...\n' $modules)
(cd cmd/leader && "$linter" run --build-tags natsonly . ./internal/announce/... ./internal/stores/...)
for dir; do
	step "lint $dir"
	(cd "$dir" && GOWORK=off "$linter" run ./...)
done

step known vulnerabilities
(cd tools && GOWORK=off go run ./vulncheck -tool "$BIN/govulncheck" ${ARGS-} $modules)

step language
GOWORK=off go -C tools test ./voice
GOWORK=off go -C tools build -o "$BIN/voice" ./voice
"$BIN/voice"

step go.mod files
tools/tidy.sh -check "$@"

step docs/reference/commands.md
go test -run '^Test(Reference|Help)' ./cmd/leader

# The packages that people import are also vetted, with their tests.
for platform in darwin/arm64 windows/amd64; do
	step "build for $platform"
	(
		export GOFLAGS=-trimpath GOOS="${platform%/*}" GOARCH="${platform#*/}"
		packages=$(go list -f '{{if .GoFiles}}{{.ImportPath}}{{end}}' work | grep -Ev '/(test|examples)(/|$)')
		go build $packages
		go vet $packages
	)
done
step build for linux/386
GOARCH=386 go build -tags natsonly ./... ./cmd/leader
