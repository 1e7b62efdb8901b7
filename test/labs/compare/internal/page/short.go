package page

import (
	"fmt"
	"strings"

	"github.com/seed-ff2cb582/leader/test/internal/harness"
	"github.com/seed-ff2cb582/leader/test/internal/measure/figure"
	"github.com/seed-ff2cb582/leader/test/internal/reporting"
)

// Short is the README's block: the rows that most readers look for, and the
// picture.
func Short(r *figure.Report) string {
	ours := r.Ours()
	t := libraries("", r)
	t.head[0] = "figure"
	for i, f := range ours.Faults {
		t.row("two leaders: "+f.Name, r, func(res *figure.Result) string { return worst(res.Faults[i]) })
	}
	t.spread("graceful handover", r, func(res *figure.Result) harness.Samples { return res.Handover })
	for i, c := range ours.Crashes {
		t.row(fmt.Sprintf("crash failover / TTL, TTL %v", c.TTL), r, func(res *figure.Result) string { return share(res.Crashes[i]) })
	}
	t.row(fmt.Sprintf("messages in a second, 1 leader and %d followers, a renewal each second", ours.Traffic.Followers), r,
		func(res *figure.Result) string { return fmt.Sprintf("%.1f", res.Traffic.Messages()) })
	for i, c := range ours.Crowds {
		t.row(fmt.Sprintf("CPU of %d elections, led and followed, TTL %v", c.Elections, c.TTL), r,
			func(res *figure.Result) string { return load(res.Crowds[i]) })
	}
	t.row(fmt.Sprintf("a vacancy among %d candidates, p50", ours.Herd.Candidates), r,
		func(res *figure.Result) string { return figure.Duration(res.Herd.Took.Median()) })
	t.row("the same by plain NATS messages and writes, without a library, p50", r, func(res *figure.Result) string { return bare(res.Herd) })
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s\n![How long nobody leads](docs/comparison.svg)\n\n%s\n\n", t.markdown(),
		reporting.Fill(fmt.Sprintf("%#q, %s. What is behind each figure: [docs/comparison.md](docs/comparison.md).", r.Command, machine(r))))
	return b.String()
}

// bare is what a vacancy takes without a library, where that was measured.
func bare(h figure.HerdStats) string {
	if len(h.Bare) == 0 {
		return none
	}
	return figure.Duration(h.Bare.Median())
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
