package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader/test/internal/harness"
)

// A report is what was measured, and where.
type report struct {
	Command string   `json:"command"`
	At      string   `json:"at"`
	Machine machine  `json:"machine"`
	Figures []figure `json:"figures"`
}

type machine struct {
	harness.Machine

	NATSServer string `json:"nats_server"`
	NATSGo     string `json:"nats_go"`
}

// A figure is one row of the table.
type figure struct {
	Name  string  `json:"name"`
	N     int     `json:"n,omitempty"`
	Unit  string  `json:"unit"`
	Value float64 `json:"value"`         // the median, where N > 1
	P99   float64 `json:"p99,omitempty"` // with N > 1
	// Relative describes what the figure is relative to, and the ratio of the
	// two.
	Relative string `json:"relative,omitempty"`
	Target   string `json:"target,omitempty"`
	OK       *bool  `json:"ok,omitempty"`
}

func newReport() *report {
	return &report{
		At:      time.Now().UTC().Format(time.RFC3339),
		Machine: machine{Machine: harness.ThisMachine(), NATSServer: server.VERSION, NATSGo: nats.Version},
	}
}

// A verdict is a target and whether it was reached.
type verdict struct {
	target string
	ok     bool
}

func (r *report) add(f figure, v *verdict) {
	if v != nil {
		f.Target, f.OK = v.target, &v.ok
	}
	r.Figures = append(r.Figures, f)
}

// durations adds the median and the 99th percentile of samples, in
// milliseconds.
func (r *report) durations(name string, samples harness.Samples, relative string, v *verdict) {
	r.add(figure{
		Name: name, N: len(samples), Unit: "ms",
		Value: ms(samples.Median()), P99: ms(samples.Percentile(99)), Relative: relative,
	}, v)
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func (r *report) print(w io.Writer) error {
	m := r.Machine
	fmt.Fprintf(w, "\n%s, %d cores, %s · %s · nats-server %s, nats.go %s · load before %s · %s\n%s\n\n",
		m.CPU, m.Cores, m.OS, m.Go, m.NATSServer, m.NATSGo, m.Load, r.At, r.Command)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "figure\tn\tp50 or value\tp99\tunit\trelative\ttarget\t")
	for _, f := range r.Figures {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n",
			f.Name, some(float64(f.N)), number(f.Value), some(f.P99), f.Unit, f.Relative, f.Target, word(f.OK))
	}
	return t.Flush()
}

func number(x float64) string {
	switch {
	case x == 0:
		return "0"
	case x == float64(int64(x)):
		return fmt.Sprintf("%d", int64(x))
	case x < 10:
		return fmt.Sprintf("%.3f", x)
	default:
		return fmt.Sprintf("%.1f", x)
	}
}

// some is a number, or nothing for 0.
func some(x float64) string {
	if x == 0 {
		return ""
	}
	return number(x)
}

func word(ok *bool) string {
	switch {
	case ok == nil:
		return ""
	case *ok:
		return "ok"
	default:
		return "MISS"
	}
}
