package metrics_test

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/seed-ff2cb582/leader/telemetry"
)

type dashboard struct {
	UID           string
	Title         string
	SchemaVersion int
	Panels        []panel
	Templating    struct{ List []variable }
}

type panel struct {
	ID          int
	Type        string
	Title       string
	Description string
	Datasource  datasource
	GridPos     struct{ H, W, X, Y int }
	Targets     []struct {
		Datasource   datasource
		Expr         string
		LegendFormat string
		RefID        string
	}
}

type datasource struct{ Type, UID string }

type variable struct {
	Name, Type string
	Query      json.RawMessage
	Datasource datasource
	Definition string
}

func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	text, err := os.ReadFile(dashboardFile)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// expressions returns the expressions of all panels, with Grafana's variables
// replaced as Grafana does.
func (d dashboard) expressions() map[string]string {
	known := strings.NewReplacer("$__rate_interval", "5m", "$bucket", "leaders", "$role", ".*", "$instance", "a|b")
	all := make(map[string]string)
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			all[p.Title+" "+target.RefID] = known.Replace(target.Expr)
		}
	}
	return all
}

func TestTheDashboardNamesOnlyWhatExists(t *testing.T) {
	t.Parallel()
	d := readDashboard(t)
	for where, expr := range d.expressions() {
		if strings.Contains(expr, "$") {
			t.Errorf("%s: an unknown variable: %s", where, expr)
		}
		check(t, where, expr)
	}
	queried := regexp.MustCompile(`^label_values\((.*), (\w+)\)$`)
	for _, v := range d.Templating.List {
		if v.Type != "query" {
			continue
		}
		parts := queried.FindStringSubmatch(v.Definition)
		if parts == nil {
			t.Errorf("variable %s: %q is not label_values(series, label)", v.Name, v.Definition)
			continue
		}
		names := check(t, v.Name, strings.NewReplacer("$bucket", "leaders", "$role", "x").Replace(parts[1]))
		if len(names) == 1 && !slices.Contains(metrics()[names[0]].labels, parts[2]) {
			t.Errorf("variable %s: %s has no label %s", v.Name, names[0], parts[2])
		}
	}
}

func TestTheDashboardShowsEveryMetricAndWhateverAnAlertIsAbout(t *testing.T) {
	t.Parallel()
	shown := make(map[string]bool)
	for where, expr := range readDashboard(t).expressions() {
		for _, name := range check(t, where, expr) {
			shown[name] = true
		}
	}
	for _, m := range telemetry.All() {
		name := m.Definition().Prometheus()
		if !shown[name] && !shown[name+"_bucket"] && !shown[name+"_sum"] {
			t.Errorf("the dashboard does not show %s", name)
		}
	}
	for _, rule := range rules(t) {
		for _, name := range check(t, rule.Alert, rule.Expr) {
			if !shown[name] {
				t.Errorf("the dashboard does not show %s, which %s is about", name, rule.Alert)
			}
		}
	}
}

// A dashboard is imported into an installation whose data source has another
// name.
func TestTheDashboardCanBeImported(t *testing.T) {
	t.Parallel()
	d := readDashboard(t)
	if d.UID == "" || d.Title == "" || d.SchemaVersion == 0 {
		t.Errorf("uid %q, title %q, schemaVersion %d", d.UID, d.Title, d.SchemaVersion)
	}
	if i := slices.IndexFunc(d.Templating.List, func(v variable) bool { return v.Name == "datasource" && v.Type == "datasource" }); i != 0 {
		t.Error("the first variable is to be the data source")
	}
	legend := regexp.MustCompile(`\{\{(\w+)\}\}`)
	ids, places := map[int]string{}, map[string]string{}
	for _, p := range d.Panels {
		place := fmt.Sprint(p.GridPos.X, p.GridPos.Y)
		if other, ok := ids[p.ID]; ok || places[place] != "" {
			t.Errorf("the panels %q and %q have the same id or place", p.Title, other+places[place])
		}
		ids[p.ID], places[place] = p.Title, p.Title
		if p.Type == "row" {
			continue
		}
		if p.Description == "" || len(p.Targets) == 0 || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("panel %q has no description or no query, or is too wide", p.Title)
		}
		for _, target := range p.Targets {
			if p.Datasource.UID != "${datasource}" || target.Datasource.UID != "${datasource}" {
				t.Errorf("panel %q is bound to a data source", p.Title)
			}
			for _, label := range legend.FindAllStringSubmatch(target.LegendFormat, -1) {
				if !strings.Contains(strings.Join(labelsOf(t, p.Title, target.Expr), " "), label[1]) {
					t.Errorf("the legend of %q names %s, which its series do not have", p.Title, label[1])
				}
			}
		}
	}
}

// labelsOf returns the labels that the result of an expression has: those that
// it aggregates by, or all of its metrics'.
func labelsOf(t *testing.T, where, expr string) (all []string) {
	t.Helper()
	if by := regexp.MustCompile(`by \(([^)]*)\)`).FindStringSubmatch(expr); by != nil {
		return strings.Split(by[1], ", ")
	}
	plain := strings.NewReplacer("$__rate_interval", "5m").Replace(expr)
	for _, name := range check(t, where, plain) {
		all = append(all, metrics()[name].labels...)
	}
	return all
}
