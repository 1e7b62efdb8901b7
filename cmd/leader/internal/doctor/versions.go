package doctor

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/finding"
)

// A version of nats-server. A candidate for a release counts as the release
// before it: its number is one too large. So 2.12.-1 is the first candidate for
// 2.12.0, and a fault that 2.12.6 repairs counts for its candidates.
type version [3]int

// parseVersion reads "2.12.6" or "2.12.0-RC.1".
func parseVersion(s string) (v version, ok bool) {
	s, pre, _ := strings.Cut(s, "-")
	parts := strings.Split(s, ".")
	if len(parts) != len(v) {
		return v, false
	}
	for i, part := range parts {
		n, err := strconv.Atoi(part)
		if err != nil || n < 0 {
			return v, false
		}
		v[i] = n
	}
	if strings.HasPrefix(pre, "RC") {
		v[2]--
	}
	return v, true
}

// before reports whether v is an earlier version than w.
func (v version) before(w version) bool {
	for i := range v {
		if c := cmp.Compare(v[i], w[i]); c != 0 {
			return c < 0
		}
	}
	return false
}

// A fault is a known one of nats-server that concerns elections.
//
// A list of known faults proves nothing about unknown faults: hence the words
// "no known fault" where none of it matches.
type fault struct {
	name string
	in   func(version) bool
	// status is Fail where elections do not keep their promises, Warn where
	// somebody has to attack or power has to fail.
	status finding.Status
	what   string
	fix    string
}

// faults are the known ones, each with why it concerns elections.
func faults() []fault {
	return []fault{
		{
			"first_seq", func(v version) bool { return v.before(version{2, 10, 0}) }, finding.Fail,
			"servers before 2.10.0 have no first_seq: the terms of a bucket that is deleted and made again start at 1, below the terms that fences have seen",
			"upgrade to " + minimum,
		},
		{
			"CVE-2026-33222", func(v version) bool {
				return v.before(version{2, 11, 15}) || !v.before(version{2, 12, -1}) && v.before(version{2, 12, 6})
			}, finding.Warn,
			"a user that may restore one stream can restore over any other stream of the account, such as the bucket of the elections",
			"upgrade to " + minimum + "; until then grant nobody $JS.API.STREAM.RESTORE",
		},
		{
			"jepsen-2.12.1", func(v version) bool { return !v.before(version{2, 12, -1}) && !version{2, 12, 1}.before(v) }, finding.Warn,
			"a test by Jepsen found acknowledged writes of 2.12.1 lost when power failed in several servers, and when files were damaged",
			"upgrade to " + minimum + ", set sync_interval: always, and fence what must not see two leaders",
		},
	}
}

// minimum is the version that operators are advised to run. See
// docs/guides/upgrades.md.
const minimum = "2.12.6 or 2.11.15, or later"

// judgeVersion adds what is known of a version. It knows the version of the
// connected server alone. A version without a readable number is a custom
// build, about which a comparison would claim too much.
func judgeVersion(l *finding.List, text string) {
	v, ok := parseVersion(text)
	if !ok {
		l.Add("version", finding.Info, "run nats-server "+minimum, "the server calls its version %q, of which nothing is known", text)
		return
	}
	known := 0
	for _, f := range faults() {
		if f.in(v) {
			known++
			l.Add("version", f.status, f.fix, "nats-server %s, %s: %s", text, f.name, f.what)
		}
	}
	if known == 0 {
		l.Add("version", finding.OK, "", "nats-server %s has no known fault that concerns elections; other servers of a cluster are not seen from here", text)
	}
}
