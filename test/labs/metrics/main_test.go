// Package metrics_test checks what the adapters for metrics ship: the alerting
// rules and the dashboard by Prometheus's own parser and engine, and the series
// of both adapters on real servers.
package metrics_test

import (
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"go.uber.org/goleak"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/telemetry"
)

const (
	alertsFile    = "../../../leaderprom/alerts.yaml"
	exporterFile  = "../../../deploy/exporter-alerts.yaml"
	dashboardFile = "../../../leaderprom/dashboard.json"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newParser() parser.Parser { return parser.NewParser(parser.Options{}) }

// rules reads the alerting rules of the candidates' metrics.
func rules(t *testing.T) []rulefmt.Rule {
	t.Helper()
	return rulesOf(t, alertsFile)
}

// rulesOf reads alerting rules as Prometheus does.
func rulesOf(t *testing.T, file string) (all []rulefmt.Rule) {
	t.Helper()
	groups, errs := rulefmt.ParseFile(file, false, model.UTF8Validation, newParser(), slog.New(slog.DiscardHandler))
	for _, err := range errs {
		t.Error(err)
	}
	if t.Failed() {
		t.FailNow()
	}
	for _, g := range groups.Groups {
		all = append(all, g.Rules...)
	}
	return all
}

// A metric describes how an expression may use one name.
type metric struct {
	labels []string
	// buckets are the values of le.
	buckets []string
}

// metrics returns everything that an election can show, by its name at
// Prometheus.
func metrics() map[string]metric {
	all := make(map[string]metric)
	for _, m := range telemetry.All() {
		d := m.Definition()
		name, own := d.Prometheus(), append(telemetry.Labels(), d.Labels...)
		if d.Kind != telemetry.Histogram {
			all[name] = metric{labels: own}
			continue
		}
		le := []string{"+Inf"}
		for _, b := range d.Buckets {
			le = append(le, strconv.FormatFloat(b, 'f', -1, 64))
		}
		all[name+"_sum"], all[name+"_count"] = metric{labels: own}, metric{labels: own}
		all[name+"_bucket"] = metric{labels: append(slices.Clone(own), "le"), buckets: le}
	}
	return all
}

// values returns the values of those labels that have a fixed set of them.
func values(label string, m metric) []string {
	switch label {
	case "le":
		return m.buckets
	case "status":
		return outcomes()
	case "error_type":
		return append(outcomes(), leader.NoteRegressed, leader.NoteOverrun, leader.NoteGaveUp, leader.NoteNotReady, leader.NotePanic,
			leader.NoteTakeover, leader.NoteMalformed)
	case "callback":
		return []string{"promote", "demote", "campaign", "leader-change"}
	case "reason":
		return []string{string(leader.ReasonPaused), string(leader.ReasonUnhealthy), string(leader.ReasonFull)}
	default:
		return nil
	}
}

func outcomes() (all []string) {
	for o := store.OK; o <= store.Unknown; o++ {
		all = append(all, o.String())
	}
	return all
}

// check parses an expression and reports whatever it names that does not exist.
// It returns the names of the metrics.
func check(t *testing.T, where, expr string) (names []string) {
	t.Helper()
	parsed, err := newParser().ParseExpr(expr)
	if err != nil {
		t.Errorf("%s: %v", where, err)
		return nil
	}
	known, usable := metrics(), []string(nil)
	parser.Inspect(parsed, func(n parser.Node, _ []parser.Node) error {
		if v, ok := n.(*parser.VectorSelector); ok {
			m, ok := known[v.Name]
			if !ok {
				t.Errorf("%s: there is no metric %s", where, v.Name)
			}
			names, usable = append(names, v.Name), append(usable, m.labels...)
			checkMatchers(t, where, v, m)
		}
		return nil
	})
	parser.Inspect(parsed, func(n parser.Node, _ []parser.Node) error {
		var used []string
		switch n := n.(type) {
		case *parser.AggregateExpr:
			used = n.Grouping
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				used = n.VectorMatching.MatchingLabels
			}
		}
		for _, label := range used {
			if !slices.Contains(usable, label) {
				t.Errorf("%s: %q names the label %s, which no metric in it has", where, n.String(), label)
			}
		}
		return nil
	})
	return names
}

func checkMatchers(t *testing.T, where string, v *parser.VectorSelector, m metric) {
	t.Helper()
	for _, l := range v.LabelMatchers {
		if l.Name == model.MetricNameLabel {
			continue
		}
		if !slices.Contains(m.labels, l.Name) {
			t.Errorf("%s: %s has no label %s", where, v.Name, l.Name)
		}
		fixed := values(l.Name, m)
		if fixed != nil && (l.Type == labels.MatchEqual || l.Type == labels.MatchNotEqual) && !slices.Contains(fixed, l.Value) {
			t.Errorf("%s: %s of %s is never %q", where, l.Name, v.Name, l.Value)
		}
	}
}

func TestAlertsNameOnlyWhatExists(t *testing.T) {
	t.Parallel()
	for _, rule := range rules(t) {
		check(t, rule.Alert, rule.Expr)
	}
}

func TestTheIssuesAlertsAreThere(t *testing.T) {
	t.Parallel()
	var names []string
	for _, rule := range rules(t) {
		names = append(names, rule.Alert)
	}
	for _, want := range []string{"ElectionNoLeader", "ElectionTwoLeaders", "ElectionFlapping", "ElectionRenewalsNearTrustLimit"} {
		if !slices.Contains(names, want) {
			t.Errorf("there is no alert %s, but: %q", want, names)
		}
	}
}

// Each alert describes the fault, its severity, and where to read on.
func TestEachAlertHasARunbook(t *testing.T) {
	t.Parallel()
	const page = "https://github.com/seed-ff2cb582/leader/blob/main/docs/operate/runbook.md#"
	text, err := os.ReadFile("../../../docs/operate/runbook.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range slices.Concat(rules(t), rulesOf(t, exporterFile)) {
		if rule.Labels["severity"] == "" || rule.Annotations["summary"] == "" || rule.Annotations["description"] == "" {
			t.Errorf("%s lacks a severity, a summary or a description", rule.Alert)
		}
		if want := page + strings.ToLower(rule.Alert); rule.Annotations["runbook_url"] != want {
			t.Errorf("%s: runbook_url is %q, want %q", rule.Alert, rule.Annotations["runbook_url"], want)
		}
		if !strings.Contains(string(text), "\n### "+rule.Alert+"\n") {
			t.Errorf("docs/operate/runbook.md has no section %s", rule.Alert)
		}
	}
}
