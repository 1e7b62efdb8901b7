package results

import (
	_ "embed" // the page
	"errors"
	"fmt"
	"io"
	"slices"
	"text/template"

	"github.com/seed-ff2cb582/leader/test/internal/reporting"
)

// A SoakResult is what a soak showed.
type SoakResult struct {
	Result
	Series []*Series
}

// Verdict is the verdict on the run, and on the slopes.
func (r *SoakResult) Verdict() error {
	errs := []error{r.Result.Verdict()}
	for _, s := range r.Series {
		b, stderr, n := s.slope()
		if n < fewest {
			errs = append(errs, fmt.Errorf("too little happened: %d values of %s after the warm-up, and a slope needs %d", n, s.Name, fewest))
		}
		if s.grows() {
			errs = append(errs, fmt.Errorf("%s grow by %.1f (± %.1f) per hour, and may by %.1f", s.Name, b/s.Unit, stderr/s.Unit, s.Limit/s.Unit))
		}
	}
	return errors.Join(errs...)
}

// Print prints the tables.
func (r *SoakResult) Print(w io.Writer) error {
	_, err := io.WriteString(w, "\n"+r.slopes()+"\n")
	return errors.Join(err, r.Result.Print(w))
}

//go:embed soak.md.tmpl
var soakPage string

// Page writes the page of results.
func (r *SoakResult) Page(w io.Writer, command string) error {
	t, err := template.New("soak").Parse(soakPage)
	if err != nil {
		return err
	}
	verdict := "Passed: no violation, and nothing grows."
	if err := r.Verdict(); err != nil {
		verdict = "Failed: " + err.Error()
	}
	return t.Execute(w, map[string]string{
		"Command": command, "When": r.when(), "Verdict": reporting.Fill(verdict), "Slopes": r.slopes(), "Summary": r.summary(), "Faults": r.faultTable(),
	})
}

// slopes is a table of what grows.
func (r *SoakResult) slopes() string {
	t := table{head: []string{"watched", "values", "least", "median", "most", "slope per hour", "± (3 standard errors)", "limit", ""}}
	for _, s := range r.Series {
		b, stderr, n := s.slope()
		sorted := slices.Sorted(slices.Values(s.value))
		show := func(x float64) string { return fmt.Sprintf("%.1f", x/s.Unit) }
		verdict := "ok"
		if s.grows() {
			verdict = "GROWS"
		}
		t.row(s.Name, n, show(sorted[0]), show(sorted[len(sorted)/2]), show(sorted[len(sorted)-1]), show(b), show(3*stderr), show(s.Limit), verdict)
	}
	return t.String()
}
