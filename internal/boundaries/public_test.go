package boundaries

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestEveryPublicPackageHasAnExample: what others import shows how it is used,
// in the place where they look.
func TestEveryPublicPackageHasAnExample(t *testing.T) {
	shown := make(map[string]bool) // by the public directory
	walk(t, root, func(path string) {
		dir, err := filepath.Rel(root, filepath.Dir(path))
		if filepath.Ext(path) != ".go" || err != nil || !public(filepath.ToSlash(dir)) {
			return
		}
		shown[dir] = shown[dir] || strings.HasSuffix(path, "_test.go") && hasExample(t, path)
	})
	if len(shown) < 20 {
		t.Fatalf("%d packages: is this not the repository?", len(shown))
	}
	for dir, ok := range shown {
		if !ok {
			t.Errorf("%s has no Example", dir)
		}
	}
}

// abilities are what package leader offers, in the words of the README's table,
// and the Examples that show each.
var abilities = map[string][]string{
	"elections":          {"Run", "NewElection", "RunWithStore", "NewElectionWithStore"},
	"failover":           {"Election_failover"},
	"handover":           {"Election_Transfer"},
	"release":            {"Election_StopWithContext"},
	"resignation":        {"Election_Resign"},
	"cool-down":          {"AcquireGrace"},
	"validation":         {"Election_Do"},
	"fencing":            {"Term_Supersedes"},
	"health checks":      {"HealthChecker"},
	"priorities":         {"ElectionConfig_priority"},
	"versions":           {"VersionPolicy"},
	"back-off, splay":    {"CampaignConfig"},
	"profiles":           {"ElectionConfig_WithProfile", "ConfigFor"},
	"a bad setting":      {"ElectionConfig_Validate"},
	"step-down":          {"Control_StepDown"},
	"transfer by others": {"Control_Transfer"},
	"pause":              {"Control_Pause", "Election_Pause"},
	"a holder is gone":   {"Control_Vacate"},
	"many roles":         {"RoleManager"},
	"observers":          {"Observe", "ObserveWithStore", "ObserveFuncWithStore", "SnapshotWithStore"},
	"metrics and traces": {"Hooks", "Hooks_termContext", "Hooks_reportMetric"},
}

// TestEveryAbilityOfTheLibraryHasAnExample: one Example a package would leave
// most of the root's abilities without.
func TestEveryAbilityOfTheLibraryHasAnExample(t *testing.T) {
	have := ""
	files, err := filepath.Glob(filepath.Join(root, "*_test.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no tests in the root: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		have += string(text)
	}
	for ability, examples := range abilities {
		for _, example := range examples {
			if !strings.Contains(have, "\nfunc Example"+example+"()") {
				t.Errorf("%s: no Example%s", ability, example)
			}
		}
	}
}

// public reports whether others import the packages of a directory.
func public(dir string) bool {
	switch {
	case untagged(dir), isInternal(dir), within(dir, "cmd"):
		return false
	case dir == "store": // a contract, whose implementations have examples
		return false
	case within(dir, "store/storetest/judge"): // for tests; store/storetest shows how
		return false
	}
	return true
}

func hasExample(t *testing.T, file string) bool {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(string(text), "\nfunc Example")
}
