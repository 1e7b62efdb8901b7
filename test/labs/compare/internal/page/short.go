package page

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seed-ff2cb582/leader/test/internal/harness"
	"github.com/seed-ff2cb582/leader/test/internal/measure/figure"
	"github.com/seed-ff2cb582/leader/test/internal/reporting"
)

// Short is the README's block: the rows that most readers look for, where each
// library has a figure. The time with two leaders has its own picture.
func Short(r *figure.Report) string {
	ours := r.Ours()
	t := libraries("", r)
	t.head[0] = "figure"
	t.quantiles("graceful handover", r, func(res *figure.Result) harness.Samples { return res.Handover })
	for i, c := range ours.Crashes {
		if slices.ContainsFunc(r.Results, func(res *figure.Result) bool { return !res.Crashes[i].Permitted }) {
			continue // shorter than a library's shortest lease
		}
		t.row(fmt.Sprintf("crash failover / TTL, TTL %v", c.TTL), r, func(res *figure.Result) string { return share(res.Crashes[i]) })
	}
	t.row(fmt.Sprintf("messages in a second, 1 leader and %d followers, a renewal each second", ours.Traffic.Followers), r,
		func(res *figure.Result) string { return fmt.Sprintf("%.1f", res.Traffic.Messages()) })
	for i, c := range ours.Crowds[:min(len(ours.Crowds), 1)] {
		t.row(fmt.Sprintf("CPU of %d elections, led and followed, TTL %v", c.Elections, c.TTL), r,
			func(res *figure.Result) string { return load(res.Crowds[i]) })
	}
	for i, h := range ours.Herds {
		if h.Candidates < 200 {
			continue // a few are alike: the first row
		}
		t.row(fmt.Sprintf("a handover among %d candidates, p50", h.Candidates), r,
			func(res *figure.Result) string { return figure.Duration(res.Herds[i].Left.Took.Median()) })
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s\n%s\n\n", t.markdown(),
		reporting.Fill(fmt.Sprintf("%#q, %s. How each figure is measured: [docs/evidence/comparison.md](docs/evidence/comparison.md).", r.Command, machine(r))))
	return b.String()
}

// worst is the longest time with two leaders.
func worst(f figure.Fault) string {
	w := f.Worst()
	if w.Both() == 0 && !w.Open {
		return "0 ms"
	}
	if w.Open {
		return "≥ " + figure.Duration(w.Both())
	}
	return figure.Duration(w.Both())
}

// load is what a crowd takes, and how much of it was left at the end where
// leases were lost.
func load(c figure.Crowd) string {
	cpu := fmt.Sprintf("%.0f %% of a core", 100*c.CPU())
	if left := c.Settled(); left < c.Elections {
		cpu += fmt.Sprintf(" (%d kept their leader)", left)
	}
	return cpu
}

// share is a failover's median in leases.
func share(c figure.Crash) string {
	if !c.Permitted {
		return none
	}
	return fmt.Sprintf("%.2f", float64(c.Samples.Median())/float64(c.TTL))
}
