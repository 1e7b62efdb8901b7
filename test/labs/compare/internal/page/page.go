package page

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"text/template"

	"github.com/seed-ff2cb582/leader/test/internal/measure/figure"
	"github.com/seed-ff2cb582/leader/test/internal/reporting"
)

//go:embed comparison.md.tmpl
var prose string

// Write writes the page, the picture and the README's block below the root of
// the repository.
func Write(root string, r *figure.Report, verdicts []figure.Verdict) error {
	text, err := Markdown(r, verdicts)
	if err != nil {
		return err
	}
	var picture, overlaps bytes.Buffer
	if err := errors.Join(Plot(&picture, r), PlotOverlaps(&overlaps, r)); err != nil {
		return err
	}
	readme := filepath.Join(root, "README.md")
	old, err := os.ReadFile(readme)
	if err != nil {
		return err
	}
	renewed, err := replaceBlock(string(old), Short(r))
	if err != nil {
		return fmt.Errorf("%s: %w", readme, err)
	}
	for path, b := range map[string][]byte{
		filepath.Join(root, "docs", "evidence", "comparison.md"): text, filepath.Join(root, "docs", "evidence", "comparison.svg"): picture.Bytes(), readme: []byte(renewed),
		filepath.Join(root, "docs", "evidence", "two-leaders.svg"): overlaps.Bytes(),
	} {
		if err := os.WriteFile(path, b, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// Markdown is the page: prose with the tables in it.
func Markdown(r *figure.Report, verdicts []figure.Verdict) ([]byte, error) {
	page, err := template.New("comparison").Option("missingkey=error").Parse(prose)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = page.Execute(&b, map[string]any{
		"Command": r.Command, "Machine": reporting.Fill(machine(r) + "."),
		"Targets": targets(verdicts).markdown(), "Faults": faults(r).markdown(), "Signs": signs(r).markdown(),
		"Handover": handover(r).markdown(), "Crash": crash(r).markdown(), "Traffic": traffic(r).markdown(),
		"Crowds": crowds(r).markdown(), "Herd": herd(r).markdown(), "Answer": answer(r).markdown(),
		"Stores": crowdsOfStores(r).markdown(), "OfStores": reporting.Fill(ofStores(r)),
	})
	return b.Bytes(), err
}

// The lines before and after the README's block.
const (
	begin = "<!-- written by make compare: begin -->\n"
	end   = "<!-- written by make compare: end -->\n"
)

var errNoBlock = errors.New("the lines around the comparison are missing")

// replaceBlock replaces the text between the two lines.
func replaceBlock(text, block string) (string, error) {
	b := []byte(text)
	before, rest, found := bytes.Cut(b, []byte(begin))
	_, after, closed := bytes.Cut(rest, []byte(end))
	if !found || !closed {
		return "", errNoBlock
	}
	return string(before) + begin + block + end + string(after), nil
}
