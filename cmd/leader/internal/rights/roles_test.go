package rights_test

import (
	"testing"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/rights"
)

// Vacate and forget write the group's own record, which step-down does not.
func TestTheCaretakerWritesTheRecordToo(t *testing.T) {
	needs := map[string]map[string]bool{}
	for _, role := range (rights.Scope{Bucket: "b", Group: "g"}).Roles() {
		needs[role.Name] = map[string]bool{}
		for _, r := range role.Needs {
			needs[role.Name][r.String()] = true
		}
	}
	const record = "publish to $KV.b.g"
	if needs["operator"][record] || !needs["caretaker"][record] {
		t.Errorf("operator %v, caretaker %v", needs["operator"], needs["caretaker"])
	}
	for right := range needs["operator"] {
		if right != "publish to $KV.b._ctl.g" && !needs["caretaker"][right] {
			t.Errorf("a caretaker has no %s", right)
		}
	}
}

// The rights of an admin are those to a bucket, whose groups they do not name.
func TestTheAdminIsOneOfTheBucket(t *testing.T) {
	for _, role := range (rights.Scope{Bucket: "b", Group: "g"}).Roles() {
		if want := map[string]string{"viewer": "every group", "admin": `bucket "b"`}[role.Name]; role.Of != want {
			t.Errorf("%s of %q, want %q", role.Name, role.Of, want)
		}
	}
}
