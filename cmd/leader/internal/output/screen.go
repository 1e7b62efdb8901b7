package output

import (
	"io"
	"os"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/term"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/environ"
)

// A Screen is what an output can show. The zero value is for a file or a pipe:
// lines of any length, and no colours.
type Screen struct {
	Width int // in columns; 0 means that nothing limits a line
	Color bool
}

// ScreenOf returns what the terminal behind an output can show. Colours are
// left out where NO_COLOR is set (no-color.org), or the terminal knows none.
func ScreenOf(w io.Writer, env environ.Env) Screen {
	width := widthOf(w)
	return Screen{Width: width, Color: width > 0 && env.Get("NO_COLOR") == "" && env.Get("TERM") != "dumb"}
}

// widthOf returns the columns of the terminal behind an output, 0 if there is
// none.
func widthOf(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(f.Fd()) {
		return 0
	}
	width, _, err := term.GetSize(f.Fd())
	if err != nil || width <= 0 {
		return 80
	}
	return width
}

// A Tint is how a text is to catch the eye.
type Tint string

// The tints, as parameters of the terminals' sequence SGR.
const (
	Plain   Tint = ""
	Heading Tint = "1"
	Quiet   Tint = "2"
	Bad     Tint = "31"
	Good    Tint = "32"
	Caution Tint = "33"
)

// Paint returns the text in a tint, where the screen has colours.
func (s Screen) Paint(t Tint, text string) string {
	if !s.Color || t == Plain || text == "" {
		return text
	}
	return "\x1b[" + string(t) + "m" + text + "\x1b[m"
}

// Wrap returns the text in lines that end between words, of at most as many
// columns as the screen has. Those after the first begin with the indent. A
// word that is longer than a line stays whole.
func (s Screen) Wrap(text, indent string) string {
	if s.Width == 0 {
		return text
	}
	return strings.Join(wrap(text, s.Width, indent), "\n")
}

func wrap(text string, width int, indent string) []string {
	if ansi.StringWidth(text) <= width {
		return []string{text}
	}
	var lines []string
	line := ""
	for i, word := range strings.Split(text, " ") { // several spaces stay, but at an end
		switch {
		case i == 0:
			line = word
		case strings.TrimSpace(line) != "" && ansi.StringWidth(line)+1+ansi.StringWidth(word) > width:
			lines = append(lines, strings.TrimRight(line, " "))
			line = indent + word
		default:
			line += " " + word
		}
	}
	return append(lines, line)
}

// Prose returns an output for sentences, whose lines on a terminal end between
// words.
func Prose(w io.Writer) io.Writer {
	if widthOf(w) == 0 {
		return w
	}
	return prose{w}
}

type prose struct{ out io.Writer }

func (p prose) Write(b []byte) (int, error) {
	screen := Screen{Width: widthOf(p.out)} // which may have been resized
	var text strings.Builder
	for line := range strings.Lines(string(b)) {
		body, end := strings.CutSuffix(line, "\n")
		text.WriteString(screen.Wrap(body, "  "))
		if end {
			text.WriteString("\n")
		}
	}
	if _, err := io.WriteString(p.out, text.String()); err != nil {
		return 0, err
	}
	return len(b), nil
}
