package page

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/seed-ff2cb582/leader/test/internal/harness"
	"github.com/seed-ff2cb582/leader/test/internal/measure/figure"
	"github.com/seed-ff2cb582/leader/test/internal/storefigures"
)

// none marks a library that has no such figure.
const none = "–"

// libraries is a table with a column for each library.
func libraries(title string, r *figure.Report) *table {
	t := &table{title: title, head: []string{""}}
	for _, res := range r.Results {
		t.head = append(t.head, res.Library)
	}
	return t
}

// row adds a figure of each library.
func (t *table) row(name string, r *figure.Report, cell func(*figure.Result) string) {
	cells := []string{name}
	for _, res := range r.Results {
		cells = append(cells, cell(res))
	}
	t.add(cells...)
}

// quantiles adds a median and a 99th percentile of each library, with the
// number of samples. With fewer than a hundred samples the percentile is the
// longest one, and the row names it so.
func (t *table) quantiles(name string, r *figure.Report, of func(*figure.Result) harness.Samples) {
	fewest, most := math.MaxInt, 0
	for _, res := range r.Results {
		if n := len(of(res)); n > 0 {
			fewest, most = min(fewest, n), max(most, n)
		}
	}
	word, share, n := "p99", 99.0, fmt.Sprint(most)
	if fewest < 100 {
		word, share = "most", 100
	}
	if fewest < most {
		n = fmt.Sprintf("%d to %d", fewest, most)
	}
	t.row(fmt.Sprintf("%s, p50 (%s), n = %s", name, word, n), r, func(res *figure.Result) string {
		s := of(res)
		if len(s) == 0 {
			return none
		}
		return fmt.Sprintf("%s (%s)", figure.Duration(s.Median()), figure.Duration(s.Percentile(share)))
	})
}

func targets(verdicts []figure.Verdict) *table {
	t := &table{title: "Targets", head: []string{"figure", "target", "measured", ""}}
	for _, v := range verdicts {
		t.add(v.Figure, v.Target, v.Got, v.Word())
	}
	return t
}

func handover(r *figure.Report) *table {
	t := libraries("Graceful handover", r)
	t.quantiles("handover", r, func(res *figure.Result) harness.Samples { return res.Handover })
	t.quantiles("the store's compare-and-swap", r, func(res *figure.Result) harness.Samples { return res.RoundTrip })
	t.row("handover / compare-and-swap", r, func(res *figure.Result) string {
		if len(res.RoundTrip) == 0 {
			return none
		}
		return fmt.Sprintf("%.1f", float64(res.Handover.Median())/float64(res.RoundTrip.Median()))
	})
	return t
}

func crash(r *figure.Report) *table {
	t := libraries("Crash failover", r)
	for i, c := range r.Ours().Crashes {
		at := func(res *figure.Result) figure.Crash { return res.Crashes[i] }
		t.quantiles(fmt.Sprintf("TTL %v", c.TTL), r, func(res *figure.Result) harness.Samples { return at(res).Samples })
		t.row(fmt.Sprintf("TTL %v, p50 / TTL", c.TTL), r, func(res *figure.Result) string {
			if !at(res).Permitted {
				return none
			}
			return fmt.Sprintf("%.2f", float64(at(res).Samples.Median())/float64(c.TTL))
		})
	}
	return t
}

// both writes what the trials of a fault showed.
func both(f figure.Fault) string {
	worst := f.Worst()
	if worst.Both() == 0 && !worst.Open {
		return "0"
	}
	sign := ""
	if worst.Open {
		sign = "≥ "
	}
	return fmt.Sprintf("%s%s (p50 %s)", sign, figure.Duration(worst.Both()), figure.Duration(f.Median()))
}

func faults(r *figure.Report) *table {
	t := libraries("Time with two leaders, the worst trial", r)
	for i, f := range r.Ours().Faults {
		t.row(fmt.Sprintf("%s, %d trials", f.Name, len(f.Trials)), r, func(res *figure.Result) string { return both(res.Faults[i]) })
	}
	return t
}

// signs lists the sign by which the time with two leaders was found.
func signs(r *figure.Report) *table {
	t := &table{title: "The worst trial by each sign", head: []string{"fault", "library", "both answered that they lead", "both had been called to work"}}
	for i, f := range r.Ours().Faults {
		for _, res := range r.Results {
			var answer, works harness.Samples
			for _, trial := range res.Faults[i].Trials {
				answer, works = append(answer, trial.Answer), append(works, trial.Works)
			}
			said := figure.Duration(answer.Max())
			if !res.Answers {
				said = none
			}
			t.add(f.Name, res.Library, said, figure.Duration(works.Max()))
		}
	}
	return t
}

func traffic(r *figure.Report) *table {
	ours := r.Ours().Traffic
	t := libraries(fmt.Sprintf("1 leader and %d followers, a renewal each %v: in a second", ours.Followers, ours.Heartbeat), r)
	t.row("messages to the server", r, func(res *figure.Result) string { return fmt.Sprintf("%.1f", res.Traffic.In) })
	t.row("messages from the server", r, func(res *figure.Result) string { return fmt.Sprintf("%.1f", res.Traffic.Out) })
	t.row("bytes on all connections, both ways", r, func(res *figure.Result) string { return fmt.Sprintf("%.0f", res.Traffic.Bytes) })
	if r.Ours().Plain.Traffic.Followers > 0 {
		t.row(inPlain+": messages to the server", r, func(res *figure.Result) string { return rate(res.Plain.Traffic, res.Plain.Traffic.In) })
		t.row(inPlain+": messages from the server", r, func(res *figure.Result) string { return rate(res.Plain.Traffic, res.Plain.Traffic.Out) })
	}
	return t
}

// inPlain marks a row for a bucket that does not republish.
const inPlain = "in a bucket that does not republish"

// rate is messages in a second, where they were counted.
func rate(t figure.Traffic, messages float64) string {
	if t.Followers == 0 {
		return none
	}
	return fmt.Sprintf("%.1f", messages)
}

func crowds(r *figure.Report) *table {
	t := libraries("Many elections in one process, on one connection", r)
	for i, c := range r.Ours().Crowds {
		t.crowd(r, "", c, func(res *figure.Result) figure.Crowd { return res.Crowds[i] })
	}
	if c := r.Ours().Plain.Crowd; c.Elections > 0 {
		t.crowd(r, inPlain+", ", c, func(res *figure.Result) figure.Crowd { return res.Plain.Crowd })
	}
	return t
}

// crowd adds the rows of many elections.
func (t *table) crowd(r *figure.Report, where string, c figure.Crowd, of func(*figure.Result) figure.Crowd) {
	for _, side := range []struct {
		word string
		cost func(figure.Crowd) figure.Cost
	}{
		{"led", func(c figure.Crowd) figure.Cost { return c.Leading }},
		{"followed", func(c figure.Crowd) figure.Cost { return c.Following }},
	} {
		row := func(what string, cell func(figure.Cost) string) {
			name := fmt.Sprintf("%s%d %s, TTL %v: %s", where, c.Elections, side.word, c.TTL, what)
			t.row(name, r, func(res *figure.Result) string {
				if of(res).Elections == 0 {
					return none
				}
				return cell(side.cost(of(res)))
			})
		}
		row("settled", func(k figure.Cost) string { return fmt.Sprintf("%d in %.1f s", k.Settled, k.Joined.Seconds()) })
		row("CPU, % of a core", func(k figure.Cost) string { return fmt.Sprintf("%.1f", 100*k.CPU) })
		row("heap each, KiB", func(k figure.Cost) string { return fmt.Sprintf("%.1f", k.Heap/1024) })
		row("goroutines each", func(k figure.Cost) string { return fmt.Sprintf("%.2f", k.Goroutines) })
	}
}

func herd(r *figure.Report) *table {
	t := libraries("Few candidates and many", r)
	for i, h := range r.Ours().Herds {
		for _, what := range []struct {
			ends, from string
			of         func(figure.Herd) figure.Succession
		}{
			{"the leader leaves", "until one leads", func(h figure.Herd) figure.Succession { return h.Left }},
			{"the leader dies", "from its last renewal until one leads", func(h figure.Herd) figure.Succession { return h.Died }},
		} {
			name := fmt.Sprintf("%d candidates, %s: ", h.Candidates, what.ends)
			t.quantiles(name+what.from, r, func(res *figure.Result) harness.Samples { return what.of(res.Herds[i]).Took })
			t.row(name+"claims, p50 (most)", r, func(res *figure.Result) string {
				s := what.of(res.Herds[i])
				return fmt.Sprintf("%d (%d)", s.MedianClaims(), s.MaxClaims())
			})
		}
	}
	t.quantiles("a handover among 200 by plain messages and writes", r, func(res *figure.Result) harness.Samples { return res.Herds[len(res.Herds)-1].Bare })
	return t
}

func answer(r *figure.Report) *table {
	t := libraries("To ask whether one leads", r)
	t.row("ns", r, func(res *figure.Result) string {
		if res.Answer == 0 {
			return none
		}
		return fmt.Sprintf("%.0f", res.Answer)
	})
	return t
}

// stores is the table of what this project does over other stores.
func stores(r *figure.Report) *table {
	t := &table{title: "This project over each kind of store"}
	if r.Stores != nil {
		t.head, t.rows = r.Stores.Table()
	}
	return t
}

// crowdsOfStores is the part of stores that docs/reference/stores.md, which
// explains and has the other columns, does not have.
func crowdsOfStores(r *figure.Report) *table {
	t := stores(r)
	if r.Stores == nil {
		return t
	}
	pick := func(cells []string) []string {
		return append(cells[:1:1], cells[len(cells)-len(storefigures.Sizes()):]...)
	}
	t.head = pick(t.head)
	for i, row := range t.rows {
		absent := row[1]
		t.rows[i] = pick(row)
		if r.Stores.Stores[i].Absent != "" {
			t.rows[i][1] = absent
		}
	}
	return t
}

// measured are the tables of what this run measured.
func measured(r *figure.Report) (tables []*table) {
	ours := r.Ours()
	for _, t := range []struct {
		there bool
		of    func(*figure.Report) *table
	}{
		{len(ours.Faults) > 0, faults},
		{len(ours.Faults) > 0, signs},
		{len(ours.Handover) > 0, handover},
		{len(ours.Crashes) > 0, crash},
		{ours.Traffic.Followers > 0, traffic},
		{len(ours.Crowds) > 0, crowds},
		{len(ours.Herds) > 0, herd},
		{ours.Answer > 0, answer},
		{r.Stores != nil, stores},
	} {
		if t.there {
			tables = append(tables, t.of(r))
		}
	}
	return tables
}

// machine describes where, when and with which versions the run was made.
func machine(r *figure.Report) string {
	m := r.Machine
	var servers, with []string
	for _, res := range r.Results {
		if !slices.Contains(servers, res.Store) {
			servers = append(servers, res.Store)
		}
		if res.Version != "" {
			with = append(with, res.Library+" "+res.Version)
		}
	}
	priority := ""
	if m.Nice != 0 {
		priority = fmt.Sprintf(" (this run had the priority of nice %d)", m.Nice)
	}
	commit := ""
	if r.Commit != "" {
		commit = " of commit " + r.Commit
	}
	return fmt.Sprintf("%s, %d cores, %s, Go %s; %s; %s. Load average %s before, %s after%s; %s%s, in %v",
		m.CPU, m.Cores, m.OS, m.Go, strings.Join(servers, ", "), strings.Join(with, ", "),
		m.Load, m.LoadEnd, priority, r.At.Format("2006-01-02"), commit, r.Took.Round(time.Second))
}

// ofStores describes how the stores were measured.
func ofStores(r *figure.Report) string {
	if r.Stores == nil {
		return "Not measured in this run."
	}
	return fmt.Sprintf("%d rounds in each, one store after the other; load average %s before, in %v.",
		r.Stores.Rounds, r.Stores.Load, r.Stores.Took.Round(time.Second))
}

// Text is the report for a terminal.
func Text(r *figure.Report, verdicts []figure.Verdict) string {
	var b strings.Builder
	for _, t := range append(measured(r), targets(verdicts)) {
		fmt.Fprintf(&b, "\n%s", t.text())
	}
	fmt.Fprintf(&b, "\n%s\n", machine(r))
	return b.String()
}
