package demo

import (
	"context"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"html"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"charm.land/lipgloss/v2"
)

var picture = flag.String("picture", "", "play the demo and write what it shows to this file, as SVG")

// pictureFile is the picture in the README.
const pictureFile = "../../../../docs/demo.svg"

// TestPicture plays the demo, with real workers and faults, and draws what the
// terminal shows after some of them: make generate.
func TestPicture(t *testing.T) {
	if *picture == "" {
		t.Skip("-picture names no file")
	}
	script, err := ParseScript("3s crash; 7s cut; 12s resign")
	if err != nil {
		t.Fatal(err)
	}
	c := &Command{
		Workers: 7, Key: "demo", Bucket: "demo-elections", TTL: 2 * time.Second, NoSplay: true, JSON: true, For: time.Minute,
		worker: []string{os.Args[0], "work"}, script: script,
	}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	c.script = script
	st, err := c.stage(kit())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	m := &model{st: st, log: &journal{}, width: 112, height: 34}
	played := make(chan error, 1)
	go func() { played <- st.play(ctx, m.log.add) }()
	await(t, m, func() bool { return m.scene != nil && m.scene.ours && len(failovers(m)) == 3 })
	screen := m.draw()
	cancel()
	if err := errors.Join(<-played, st.close()); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(*picture, []byte(svgOf(screen, m.width, m.height)), 0o644); err != nil {
		t.Fatal(err)
	}
}

// await looks at the stage as the view does, until it shows what is wanted.
func await(t *testing.T, m *model, fits func() bool) {
	t.Helper()
	tick := time.NewTicker(frame)
	defer tick.Stop()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); <-tick.C {
		m.look()
		if fits() {
			return
		}
	}
	t.Fatalf("the demo never showed it:\n%s", m.draw())
}

func failovers(m *model) (found []Event) {
	for _, e := range m.lines {
		if e.Kind == EventFailover {
			found = append(found, e)
		}
	}
	return found
}

// The keys of the picture are the keys of today's demo; if not, make generate.
func TestThePictureIsOfThisDemo(t *testing.T) {
	data, err := os.ReadFile(pictureFile)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for d := xml.NewDecoder(strings.NewReader(string(data))); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%s: %v", pictureFile, err)
		}
		if words, ok := token.(xml.CharData); ok {
			text.WriteString(strings.TrimSpace(string(words)))
		}
	}
	for _, b := range bindings() {
		if b.fault == Kill || b.fault == Return { // it shows one server
			continue
		}
		if !strings.Contains(text.String(), strings.ReplaceAll(b.name, " ", "")) {
			t.Errorf("the picture does not show the key for %s: draw it again by make generate", b.name)
		}
	}
}

// A pen is how text is drawn.
type pen struct {
	bold   bool
	fg, bg string
}

const (
	cellWidth, cellHeight = 8.4, 19
	margin                = 14
	paper, ink            = "#16181d", "#d7dae0"
)

// svgOf draws a screen with its colours.
func svgOf(screen string, width, height int) string {
	var b strings.Builder
	w, h := float64(width)*cellWidth+2*margin, height*cellHeight+2*margin
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %d" role="img" aria-label="leader demo: workers elect a leader, and another one when it fails">`+"\n", w, h)
	fmt.Fprintf(&b, `<rect width="%.0f" height="%d" rx="8" fill="%s"/>`+"\n", w, h, paper)
	fmt.Fprintf(&b, `<g font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace" font-size="14">`+"\n")
	for i, line := range strings.Split(screen, "\n") {
		drawLine(&b, line, margin+i*cellHeight)
	}
	b.WriteString("</g>\n</svg>\n")
	return b.String()
}

// drawLine draws the runs of a line that have one pen each.
func drawLine(b *strings.Builder, line string, top int) {
	p, column := pen{fg: ink}, 0
	for line != "" {
		text, rest, styled := strings.Cut(line, "\x1b[")
		n := lipgloss.Width(text)
		if p.bg != "" && n > 0 {
			fmt.Fprintf(b, `<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s"/>`+"\n", xOf(column), top, float64(n)*cellWidth, cellHeight, p.bg)
		}
		drawWords(b, text, p, column, top)
		column += n
		if !styled {
			return
		}
		var codes string
		codes, line, _ = strings.Cut(rest, "m")
		p = p.styled(strings.FieldsFunc(codes, func(r rune) bool { return r == ';' || r == ':' }))
	}
}

// xOf returns where a column begins.
func xOf(column int) float64 { return margin + float64(column)*cellWidth }

// drawWords draws each word by itself: viewers make one space of many. Its
// width is given, so that columns stay in place whatever the font.
func drawWords(b *strings.Builder, text string, p pen, column, top int) {
	weight := ""
	if p.bold {
		weight = ` font-weight="bold"`
	}
	for word := range strings.SplitSeq(text, " ") {
		n := lipgloss.Width(word)
		if n > 0 {
			fmt.Fprintf(b, `<text x="%.1f" y="%d" textLength="%.1f" lengthAdjust="spacingAndGlyphs" fill="%s"%s>%s</text>`+"\n",
				xOf(column), top+14, float64(n)*cellWidth, p.fg, weight, html.EscapeString(word))
		}
		column += n + 1
	}
}

// styled takes the codes of one sequence, of those that the view uses.
func (p pen) styled(codes []string) pen {
	if len(codes) == 0 {
		return pen{fg: ink}
	}
	for len(codes) > 0 {
		used := 1
		switch codes[0] {
		case "0":
			p = pen{fg: ink}
		case "1":
			p.bold = true
		case "38", "48":
			if len(codes) < 5 {
				return p
			}
			if colour := rgb(codes[2:5]); codes[0] == "38" {
				p.fg = colour
			} else {
				p.bg = colour
			}
			used = 5
		}
		codes = codes[used:]
	}
	return p
}

func rgb(parts []string) string {
	colour := "#"
	for _, part := range parts {
		n, _ := strconv.Atoi(part) // 0 for what is none
		colour += fmt.Sprintf("%02x", n)
	}
	return colour
}
