//go:build unix

package programs_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader/test/natslab"
)

// TestThePagesRun runs the README and each page of docs/start and docs/guides,
// from its first block to its last, as a reader would in one shell:
//
//   - A block of sh is typed into the page's shell, which starts in an empty
//     directory with the command leader on its PATH and the repository, as
//     its clone, in ./leader.
//   - A block of go is a program: it is compiled, and run if a block of text
//     follows.
//   - A block of text lists lines that the block before it prints, among others
//     and in any order, since several processes print. Numbers, times, and
//     values that each run draws for itself do not count.
//   - A block behind <!-- not run here: reason --> is left out.
//
// Any other block is a fault of the page.
func TestThePagesRun(t *testing.T) {
	pages := []string{filepath.Join(repository, "README.md")}
	for _, pattern := range []string{"start/*.md", "guides/*.md", "guides/migrating/*.md"} {
		found, err := filepath.Glob(filepath.Join(repository, "docs", filepath.FromSlash(pattern)))
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, found...)
	}
	if len(pages) < 7 {
		t.Fatalf("%d pages: %q", len(pages), pages)
	}
	command := filepath.Join(t.TempDir(), "leader")
	goBuild(t, "-tags", "natsonly", "-o", command, "github.com/seed-ff2cb582/leader/cmd/leader")
	for _, page := range pages {
		name, _ := filepath.Rel(repository, page)
		t.Run(filepath.ToSlash(name), func(t *testing.T) {
			text, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			blocks, faults := blocksOf(string(text))
			for _, fault := range faults {
				t.Errorf("%s: %s", name, fault)
			}
			runBlocks(t, filepath.Dir(command), blocks)
		})
	}
}

func TestABlockThatCannotBeRunIsAFault(t *testing.T) {
	t.Parallel()
	page := "```sh\ntrue\n```\n\n```text\na\n```\n" + // runs
		"<!-- not run here: it needs a network -->\n\n```yaml\na: b\n```\n" + // left out
		"```\nnone\n```\n```yaml\nc: d\n```\n" + // of no language, and of an odd one
		"```text\nof what\n```\n" + // behind nothing that prints
		"<!-- not run here: -->\n```sh\ntrue\n```\n" + // without a reason, so it runs
		"\n    true\n" + // indented
		"```sh\nnot closed\n"
	blocks, faults := blocksOf(page)
	if len(blocks) != 2 || blocks[0].source != "true\n" || !slices.Equal(blocks[0].prints, []string{"a"}) {
		t.Errorf("blocks %+v", blocks)
	}
	var lines []string
	for _, f := range faults {
		line, _, _ := strings.Cut(f, ":")
		lines = append(lines, line)
	}
	if want := []string{"line 13", "line 16", "line 19", "line 22", "line 27", "line 28"}; !slices.Equal(lines, want) {
		t.Errorf("faults %q, want %q", faults, want)
	}
}

const repository = "../.."

// A block is a program or a script of a page.
type block struct {
	line             int
	language, source string
	prints           []string // lines that it prints, among others
}

var notRun = regexp.MustCompile(`^<!-- not run here: \S.* -->$`)

// blocksOf returns what of a page is to be run, and what nobody can run.
func blocksOf(page string) (blocks []block, faults []string) {
	exempt, after := false, false // whether a block of text belongs to the latest block
	lines := strings.Split(page, "\n")
	for i := 0; i < len(lines); i++ {
		line := strings.TrimSpace(lines[i])
		language, fenced := strings.CutPrefix(line, "```")
		switch {
		case strings.HasPrefix(lines[i], "    ") && line != "" && (i == 0 || strings.TrimSpace(lines[i-1]) == ""):
			faults = append(faults, fmt.Sprintf("line %d: an indented block would not run: fence it", i+1))
			continue
		case fenced:
		case notRun.MatchString(line):
			exempt = true
			continue
		case strings.HasPrefix(line, "<!-- not run here"):
			faults = append(faults, fmt.Sprintf("line %d: the comment has no reason", i+1))
			continue
		case strings.HasPrefix(line, "#"):
			exempt, after = false, false
			continue
		default:
			continue
		}
		b := block{line: i + 1, language: language}
		for i++; i < len(lines) && strings.TrimSpace(lines[i]) != "```"; i++ {
			b.source += lines[i] + "\n"
		}
		fault := func(what string) { faults = append(faults, fmt.Sprintf("line %d: %s", b.line, what)) }
		switch {
		case i == len(lines):
			fault("the block has no end")
		case exempt:
			after = false
		case language == "sh", language == "go" && strings.HasPrefix(b.source, "package main\n"),
			language == "go" && strings.HasPrefix(b.source, "// ") && strings.Contains(b.source, "\npackage main\n"):
			blocks, after = append(blocks, b), true
		case language == "text" && after:
			blocks[len(blocks)-1].prints, after = strings.Split(strings.TrimSpace(b.source), "\n"), false
		case language == "text":
			fault("no block before this one prints it")
		default:
			fault(fmt.Sprintf("a block of %q is neither sh nor a Go program; mark it <!-- not run here: reason --> if it cannot be run", language))
		}
		exempt = false
	}
	return blocks, faults
}

// runBlocks runs the blocks of a page in one shell.
func runBlocks(t *testing.T, commands string, blocks []block) {
	t.Helper()
	if len(blocks) == 0 {
		return
	}
	var port, url string
	runsGo := slices.ContainsFunc(blocks, func(b block) bool { return b.language == "go" && b.prints != nil })
	startsServer := slices.ContainsFunc(blocks, func(b block) bool { return strings.Contains(b.source, "nats-server -js ") })
	if runsGo && !startsServer {
		url = natsServer(t)
	} else {
		port, url = natsPort(t)
	}
	shell := startShell(t, commands, port, url)
	for _, b := range blocks {
		script := b.source
		if b.language == "go" {
			program := build(t, url, b.source)
			if b.prints == nil {
				continue
			}
			script = program + " &\n"
		}
		shell.run(b, script)
	}
}

// overlayOf has the go command read a program that connects to the url.
func overlayOf(t *testing.T, source, url string) (file string) {
	t.Helper()
	text, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	program, file := filepath.Join(dir, "main.go"), filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {source: program}})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{program: []byte(strings.ReplaceAll(string(text), "nats.DefaultURL", strconv.Quote(url))), file: replace} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return file
}

// A shell runs scripts, one after the other.
type shell struct {
	t     *testing.T
	in    io.Writer
	port  string
	lines chan string
	log   []string
}

func startShell(t *testing.T, commands, port, url string) *shell {
	t.Helper()
	clone, err := filepath.Abs(repository)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(clone, filepath.Join(dir, "leader")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-e")
	cmd.Dir, cmd.SysProcAttr = dir, &syscall.SysProcAttr{Setpgid: true}
	cmd.Env = append(os.Environ(), "TMPDIR="+dir, "PWD="+dir, "TZ=UTC", "PATH="+commands+string(os.PathListSeparator)+os.Getenv("PATH"))
	if url != nats.DefaultURL {
		// The page's programs connect to the default port, too. The go command
		// names the file as the shell does, by the link.
		cmd.Env = append(cmd.Env, "GOFLAGS="+os.Getenv("GOFLAGS")+" -overlay="+overlayOf(t, filepath.Join(dir, "leader", "examples", "quickstart", "main.go"), url))
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = write, write
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = write.Close()
	s := &shell{t: t, in: in, port: port, lines: make(chan string, 10_000)}
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer close(s.lines)
		for l := bufio.NewScanner(out); l.Scan(); {
			s.lines <- l.Text()
		}
	}()
	// At the end of its input the shell ends what it has started, also if this
	// test was killed.
	if _, err := fmt.Fprintln(in, "trap 'kill 0' EXIT"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		select {
		case <-read:
		case <-time.After(natslab.Patience): // the test's own context has ended by now
			t.Error("the processes of the page did not end")
		}
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
		_ = out.Close()
	})
	return s
}

// run types a script in, and waits until it has ended and printed its lines.
func (s *shell) run(b block, script string) {
	s.t.Helper()
	if s.port != "" {
		// The server and what connects to it have the port that this test has.
		script = strings.ReplaceAll(script, "127.0.0.1:4222", "127.0.0.1:"+s.port)
		script = strings.ReplaceAll(script, "nats-server -js ", "nats-server -js -p "+s.port+" ")
	}
	done := fmt.Sprintf("block of line %d has ended", b.line)
	if _, err := fmt.Fprintf(s.in, "%s\necho '%s'\n", script, done); err != nil {
		s.t.Fatalf("line %d: the shell has ended: %v\n%s", b.line, err, strings.Join(s.log, "\n"))
	}
	wanted, ended := slices.Clone(b.prints), false
	// The block may build a server from nothing, on a machine that does more.
	limit, cancel := context.WithTimeout(s.t.Context(), 4*natslab.Patience)
	defer cancel()
	for !ended || len(wanted) > 0 {
		select {
		case line, more := <-s.lines:
			switch {
			case !more:
				s.t.Fatalf("line %d: the shell ended in this block; not printed: %q\n%s", b.line, wanted, strings.Join(s.log, "\n"))
			case line == done:
				ended = true
			default:
				if i := slices.IndexFunc(wanted, func(w string) bool { return alike(w) == alike(line) }); i >= 0 {
					wanted = slices.Delete(wanted, i, i+1)
				}
			}
			s.log = append(s.log, line)
		case <-limit.Done():
			s.t.Fatalf("line %d: ended %v, not printed: %q\n%s", b.line, ended, wanted, strings.Join(s.log, "\n"))
		}
	}
}

var drawn = []struct{ is, as string }{
	{`\b(instance|leader|correlation)=[^\s"]+`, "$1=*"},
	{`(^|[^\w-])\d+(\.\d+)?(µs|ms|s|m|h)\b`, "${1}0"},
	{`(^|[^\w-])\d[\d:./-]*`, "${1}0"},
	{`/\S+/`, "/"}, // of a file, the name
	{` +`, " "},    // the width of columns
}

// alike returns a line without what differs from run to run.
func alike(line string) string {
	for _, d := range drawn {
		line = regexp.MustCompile(d.is).ReplaceAllString(line, d.as)
	}
	return strings.TrimSpace(line)
}
