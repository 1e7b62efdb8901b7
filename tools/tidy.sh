#!/bin/sh
# tidy.sh [-check] DIRECTORY...: go mod tidy in every module of the workspace,
# and in those beside it that are named.
#
# Plain go mod tidy cannot serve. It ignores go.work, and would look for
# versions of the siblings that are not published yet; a replace directive in
# go.mod would serve, but go install refuses a module that has one. So each
# module is tidied in a copy of its go.mod in which its siblings are replaced by
# their directories, and the replacements are dropped again. With -check nothing
# is written: the differences are shown, and the exit code is 1 if there are any.
set -eu
IFS='
'
check=
if [ "${1-}" = -check ]; then check=1; shift; fi
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
siblings=$(go list -m -f '{{.Path}}={{.Dir}}')
dirs=$(go list -m -f '{{.Dir}}')
root=$PWD
export GOWORK=off
code=0

# tidy DIRECTORY SIBLING=DIRECTORY...
tidy() {
	dir=$1; shift
	cp "$dir/go.mod" "$tmp/go.mod"
	if [ -f "$dir/go.sum" ]; then cp "$dir/go.sum" "$tmp/go.sum"; else : >"$tmp/go.sum"; fi
	for s; do go mod edit -replace="$s" "$tmp/go.mod"; done
	(cd "$dir" && go mod tidy -modfile="$tmp/go.mod")
	for s; do go mod edit -dropreplace="${s%%=*}" "$tmp/go.mod"; done
	# What tidy calls a sibling that is newly required, and what we do.
	sed 's/ v0\.0\.0-00010101000000-000000000000/ v0.0.0/' "$tmp/go.mod" >"$tmp/go.mod.new"
	mv "$tmp/go.mod.new" "$tmp/go.mod"
	for f in go.mod go.sum; do
		have=$dir/$f
		[ -f "$have" ] || have=/dev/null
		if [ -z "$check" ]; then
			cmp -s "$have" "$tmp/$f" || cp "$tmp/$f" "$dir/$f"
		elif ! diff -u "$have" "$tmp/$f"; then
			echo "tidy: $dir/$f is not tidy: run make tidy" >&2
			code=1
		fi
	done
}

for dir in $dirs; do tidy "$dir" $siblings; done
for dir; do tidy "$dir"; done # they say themselves where the others are

# To use a module is not enough where another requires it at a version that
# nobody has published yet: once the go command loads the whole graph it asks for
# that go.mod.
for s in $siblings; do
	path=${s%%=*}
	for dir in $dirs; do
		version=$(sed -n "s|^\(require\)\{0,1\}[[:space:]]*$path \(v[^ ]*\).*|\2|p" "$dir/go.mod")
		if [ -n "$version" ] && ! grep -qF "$path $version => " "$root/go.work"; then
			echo "tidy: go.work lacks the line: replace $path $version => .${s#*="$root"}" >&2
			code=1
			break
		fi
	done
done
exit $code
