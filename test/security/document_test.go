package security_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
)

// A right is one row of a table of permissions in docs/operate/permissions.md.
type right struct {
	bucket  string // kind of bucket that needs it; "any"
	publish bool   // else subscribe
	subject string
	without string // what happens without it, in bold
}

func (r right) String() string {
	if r.publish {
		return "publish " + r.subject
	}
	return "subscribe " + r.subject
}

// The kinds of buckets that the tables distinguish.
const (
	republishing = "republishing"
	other        = "other"
)

// The names that the tables are written for.
const (
	bucket = "leaders"
	group  = "reports"
)

// document returns the pages of docs/operate.
func document(tb testing.TB) string {
	tb.Helper()
	_ = os.Getenv("LEADER_TREE") // the pages are outside of what Go's test cache sees (see the Makefile)
	pages, err := filepath.Glob(filepath.Join("..", "..", "docs", "operate", "*.md"))
	if err != nil || len(pages) == 0 {
		tb.Fatal(pages, err)
	}
	var text strings.Builder
	for _, page := range pages {
		b, err := os.ReadFile(page)
		if err != nil {
			tb.Fatal(err)
		}
		text.WriteString("\n")
		text.Write(b)
	}
	return text.String()
}

// section returns the text under a heading, up to the next heading of its rank
// or above.
func section(tb testing.TB, heading string) string {
	tb.Helper()
	_, text, ok := strings.Cut(document(tb), "\n"+heading+"\n")
	if !ok {
		tb.Fatalf("docs/operate has no heading %q", heading)
	}
	rank := len(heading) - len(strings.TrimLeft(heading, "#"))
	var b strings.Builder
	code := false
	for line := range strings.Lines(text) {
		code = code != strings.HasPrefix(line, "```")
		if depth := len(line) - len(strings.TrimLeft(line, "#")); !code && depth > 0 && depth <= rank {
			break
		}
		b.WriteString(line)
	}
	return b.String()
}

// table returns the rows of the first table of a section, without its head.
func table(tb testing.TB, heading string) [][]string {
	tb.Helper()
	var rows [][]string
	for line := range strings.Lines(section(tb, heading)) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			if len(rows) > 0 {
				break
			}
			continue
		}
		var cells []string
		for cell := range strings.SplitSeq(strings.Trim(line, "|"), "|") {
			cells = append(cells, strings.TrimSpace(cell))
		}
		rows = append(rows, cells)
	}
	if len(rows) < 3 {
		tb.Fatalf("no table under %q", heading)
	}
	return rows[2:]
}

// block returns the first fenced block of a language in a section.
func block(tb testing.TB, heading, language string) string {
	tb.Helper()
	_, rest, ok := strings.Cut(section(tb, heading), "\n```"+language+"\n")
	text, _, closed := strings.Cut(rest, "\n```")
	if !ok || !closed {
		tb.Fatalf("no block of %s under %q", language, heading)
	}
	return text + "\n"
}

// documentedRoles returns whom the document gives rights, by its headings.
func documentedRoles(tb testing.TB) (roles []string) {
	tb.Helper()
	text, _, ok := strings.Cut(section(tb, "# Permissions"), "\n## Further rights\n")
	for _, found := range regexp.MustCompile(`(?m)^## (\S+)$`).FindAllStringSubmatch(text, -1) {
		roles = append(roles, strings.ToLower(found[1]))
	}
	if !ok || len(roles) == 0 {
		tb.Fatalf("the document gives rights to %q", roles)
	}
	return roles
}

// rights returns what a role may do, by its table. A caretaker's text says what
// takes the place of one of an operator's rights.
func rights(tb testing.TB, role, kind string) []right {
	tb.Helper()
	if role != caretaker {
		return tabled(tb, heading(role), kind)
	}
	swap := regexp.MustCompile("operator who publishes to `([^`]+)` in place of `([^`]+)`").
		FindStringSubmatch(strings.Join(strings.Fields(section(tb, heading(caretaker))), " "))
	if swap == nil {
		tb.Fatal("the caretaker's section lacks how its rights differ from an operator's")
	}
	all := slices.DeleteFunc(renamed(tabled(tb, heading(operator), kind), operator, caretaker), func(r right) bool { return r.without == "cannot drain" })
	for i, r := range all {
		if r.publish && r.subject == swap[2] {
			all[i].subject = swap[1]
			return all
		}
	}
	tb.Fatalf("an operator may not publish to %s", swap[2])
	return nil
}

// tabled reads the table of a role.
func tabled(tb testing.TB, heading, kind string) []right {
	tb.Helper()
	bold := regexp.MustCompile(`\*\*([^*]+)\*\*`)
	var all []right
	for _, cells := range table(tb, heading) {
		outcome := bold.FindStringSubmatch(cells[4])
		if len(cells) != 5 || outcome == nil || cells[1] != "publish" && cells[1] != "subscribe" {
			tb.Fatalf("under %q: %q", heading, cells)
		}
		r := right{cells[0], cells[1] == "publish", strings.Trim(cells[2], "`"), outcome[1]}
		switch r.bucket {
		case "any", kind:
			all = append(all, r)
		case republishing, other:
		default:
			tb.Fatalf("under %q: unknown kind of bucket %q", heading, r.bucket)
		}
	}
	return all
}

// without returns all rights but one.
func without(all []right, one right) []right {
	var rest []right
	for _, r := range all {
		if r != one {
			rest = append(rest, r)
		}
	}
	return rest
}

// user returns a user who has the rights and no others.
func user(name string, all []right) *server.User {
	// An empty list of what is allowed would allow everything.
	deny := func(p *server.SubjectPermission) *server.SubjectPermission {
		if len(p.Allow) == 0 {
			p.Deny = []string{">"}
		}
		return p
	}
	pub, sub := new(server.SubjectPermission), new(server.SubjectPermission)
	for _, r := range all {
		p := sub
		if r.publish {
			p = pub
		}
		p.Allow = append(p.Allow, r.subject)
	}
	return &server.User{Username: name, Password: name, Permissions: &server.Permissions{Publish: deny(pub), Subscribe: deny(sub)}}
}
