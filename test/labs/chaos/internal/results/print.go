package results

import (
	_ "embed" // the page
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"
	"text/template"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader/test/internal/reporting"
	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/mutant"
	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/schedule"
)

//go:embed page.md.tmpl
var page string

// Print prints the tables.
func (r *Result) Print(w io.Writer) error {
	_, err := io.WriteString(w, "\n"+r.summary()+"\n"+r.faultTable())
	return err
}

// Page writes the page of results. command is how to get such results.
func (r *Result) Page(w io.Writer, command string) error {
	t, err := template.New("page").Parse(page)
	if err != nil {
		return err
	}
	return t.Execute(w, map[string]string{
		"Command": command, "When": r.when(), "Verdict": reporting.Fill(r.verdict()), "Summary": r.summary(), "Faults": r.faultTable(), "Shapes": r.shapeTable(),
		"Mutants": mutantTable(),
	})
}

// when returns when and where the run was.
func (r *Result) when() string {
	return reporting.Fill(fmt.Sprintf("%s, seeds %s. %s.", time.Now().UTC().Format(time.DateOnly), r.seeds(), machine()))
}

func (r *Result) seeds() string {
	if len(r.Rounds) == 0 {
		return "none"
	}
	first, last := r.Rounds[0].Plan.Seed, r.Rounds[len(r.Rounds)-1].Plan.Seed
	if first == last {
		return fmt.Sprint(first)
	}
	return fmt.Sprintf("%d to %d", first, last)
}

func (r *Result) verdict() string {
	if err := r.Verdict(); err != nil {
		return "Failed: " + err.Error()
	}
	return "Passed: no violation, and enough happened to conclude that."
}

// summary is a table of what happened.
func (r *Result) summary() string {
	c := r.total()
	t := table{head: []string{"figure", "value"}}
	t.row("rounds", len(r.Rounds))
	t.row("of them ended early by the servers", r.stuck())
	t.row("time under fire", c.Elapsed.Round(time.Second))
	t.row("episodes", c.Played)
	t.row("faults", total(c.faults))
	t.row("of them at the leader of the moment", c.atLeader)
	t.row("candidates' processes", c.processes)
	if r.OneClock != nil {
		t.row("clocks that run at different rates", fmt.Sprintf("not covered: %v", r.OneClock))
	} else {
		t.row("by the rate of their clocks, in seconds a second", rates(c.clocks))
		t.row("rounds with both extremes among them", c.extremes)
		t.row("terms of a slow clock that a fast one waited out", c.margins)
	}
	t.row("rounds in which some candidates are preferred to others", r.count(schedule.Plan.Ranked))
	t.row("rounds with leases of different lengths", r.count(func(p schedule.Plan) bool { return p.Unequal }))
	t.row("rounds whose bucket drops records by their age; records that it dropped", fmt.Sprintf("%d; %d", r.count(schedule.Plan.Expires), c.expired))
	if r.OneClock == nil {
		t.row("of them by servers' clocks at "+schedule.RateOf(schedule.FastServers), c.fastServers)
	}
	t.row("samples of what candidates believe", c.samples)
	t.row("of them of leaders", c.leading)
	t.row("terms", c.terms)
	t.row("by why they were claimed", reasons(c.begun))
	t.row("by why they ended", reasons(c.ended))
	t.row("terms whose claim was seen as it was stored", c.witnessed)
	t.row("writes without an answer; found applied later", fmt.Sprintf("%d; %d", c.unknown, c.resolved))
	t.row("times that the store was made to forget", c.forgot)
	t.row("writes to guarded resources, attempted", c.writes)
	t.row("of them stale", c.stale)
	t.row("stale writes accepted", r.found("G8"))
	t.row("longest time without a leader after the last fault of an episode", fmt.Sprintf("%v (%s)", c.longest.Round(time.Millisecond), c.after))
	t.row("**violations**", fmt.Sprintf("**%d**", r.Violations()))
	return t.String()
}

// count counts the rounds of a kind.
func (r *Result) count(is func(schedule.Plan) bool) (n int) {
	for _, o := range r.Rounds {
		if is(o.Plan) {
			n++
		}
	}
	return n
}

// found counts the violations of a guarantee.
func (r *Result) found(guarantee string) (n int) {
	for _, o := range r.Rounds {
		for _, v := range o.Violations {
			if v.Guarantee == guarantee {
				n++
			}
		}
	}
	return n
}

// faultTable is a table of all kinds of faults.
func (r *Result) faultTable() string {
	c := r.total()
	t := table{head: []string{"fault", "what is done", "times"}}
	for _, k := range r.Kinds {
		times := fmt.Sprint(c.faults[k.Name])
		if why, ok := c.skipped[k.Name]; ok {
			times += ", not covered: " + why
		}
		t.row(k.Name, k.Does, times)
	}
	return t.String()
}

// shapeTable is a table of what the rounds were held on.
func (r *Result) shapeTable() string {
	t := table{head: []string{"servers and storage", "rounds", "terms", "violations"}}
	for _, s := range schedule.Shapes {
		rounds, terms, violations := 0, 0, 0
		for _, o := range r.Rounds {
			if o.Plan.Shape == s {
				rounds, terms, violations = rounds+1, terms+o.Counts.terms, violations+len(o.Violations)
			}
		}
		t.row(s.Name, rounds, terms, violations)
	}
	return t.String()
}

// mutantTable is a table of the bugs that the lab is tried on.
func mutantTable() string {
	t := table{head: []string{"mutant", "what is wrong", "condemned for"}}
	for _, m := range mutant.All {
		t.row(m.Name, m.Says, m.Breaks)
	}
	return t.String()
}

// reasons are counts by reason, the most frequent first.
func reasons(n map[string]int) string {
	names := slices.SortedFunc(maps.Keys(n), func(a, b string) int {
		if n[a] != n[b] {
			return n[b] - n[a]
		}
		return strings.Compare(a, b)
	})
	parts := make([]string, len(names))
	for i, name := range names {
		parts[i] = fmt.Sprintf("%s %d", name, n[name])
	}
	return strings.Join(parts, ", ")
}

func total(n map[string]int) (sum int) {
	for _, x := range n {
		sum += x
	}
	return sum
}

// A table is one in Markdown, which terminals show as well.
type table struct {
	head []string
	rows [][]string
}

func (t *table) row(cells ...any) {
	row := make([]string, len(cells))
	for i, c := range cells {
		row[i] = fmt.Sprint(c)
	}
	t.rows = append(t.rows, row)
}

func (t *table) String() string {
	var b strings.Builder
	line := func(cells []string) { fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | ")) }
	line(t.head)
	line(slices.Repeat([]string{"---"}, len(t.head)))
	for _, r := range t.rows {
		line(r)
	}
	return b.String()
}

// machine describes what the run was on, at its end: the load shows whether the
// lab had the machine for itself.
func machine() string {
	return fmt.Sprintf("%s, %d cores, %s/%s, %s, nats-server %s, nats.go %s; load average %s", reporting.CPU(), runtime.NumCPU(),
		runtime.GOOS, runtime.GOARCH, runtime.Version(), server.VERSION, nats.Version, reporting.Loads())
}
