package main

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/charmbracelet/x/ansi"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/demo"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/read"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/reference"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/steer"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/stores"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/version"
)

var update = flag.Bool("update", false, "write docs/cli.md and the golden files anew")

// printed is what the commands print as JSON, each by a value of its type; of
// nil, the help tells.
var printed = map[string]any{
	"ls":            []read.Group{},
	"get":           read.Detail{},
	"watch":         read.Change{},
	"history show":  read.Past{},
	"token verify":  read.Verdict{},
	"wait":          read.Group{},
	"step-down":     steer.Result{},
	"transfer":      steer.Result{},
	"pause":         steer.Result{},
	"resume":        steer.Result{},
	"vacate":        steer.Result{},
	"forget":        steer.Result{},
	"bucket create": nil, "bucket check": nil, "announce": nil, "campaign": nil, "doctor": nil,
	"demo":    demo.Event{},
	"version": version.Info{},
}

// model returns what the parser knows of all commands.
func model(t *testing.T) *kong.Application {
	t.Helper()
	parser, err := newParser(app.Streams{}, nil, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	return parser.Model
}

// golden compares with a file, or writes it.
func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	gotLines, wantLines := strings.Split(string(got), "\n"), strings.Split(string(want), "\n")
	for i := range gotLines {
		if i >= len(wantLines) || gotLines[i] != wantLines[i] {
			t.Fatalf("%s is not current from line %d on, which is now %q: run go generate ./cmd/leader", file, i+1, gotLines[i])
		}
	}
	if len(gotLines) < len(wantLines) {
		t.Fatalf("%s is too long: run go generate ./cmd/leader", file)
	}
}

func TestReferenceIsCurrent(t *testing.T) {
	t.Parallel()
	if tags != "" {
		t.Skip("the reference is that of the whole command: its help names all stores")
	}
	cli := model(t)
	source := &fieldSource{dir: directory}
	printing := map[string]string{}
	for _, node := range cli.Leaves(true) {
		path := strings.TrimPrefix(node.FullPath(), "leader ")
		value, known := printed[path]
		if !known && (printsJSON(node) || strings.Contains(node.Detail, "-o json")) {
			t.Errorf("leader %s prints JSON that the reference does not describe", path)
		}
		if value == nil {
			continue
		}
		fields, err := source.describe(value)
		if err != nil {
			t.Fatal(err)
		}
		printing[node.FullPath()] = "`" + jsonFlag(node) + "` prints:\n\n" + fields + "\n"
	}
	page, err := reference.Markdown(cli, func(command string) string { return printing[command] })
	if err != nil {
		t.Fatal(err)
	}
	golden(t, repository("docs/cli.md"), page)
}

// The help of --store names each kind of store that this program opens, and no
// other: built with natsonly it opens one kind.
func TestTheHelpOfStoreNamesWhatTheProgramOpens(t *testing.T) {
	t.Parallel()
	var want []string
	for _, d := range stores.Drivers() {
		want = append(want, d.Schemes[0]+"://")
	}
	flags := 0
	for _, node := range model(t).Leaves(true) {
		for _, flag := range node.Flags {
			if flag.Name != "store" || node.Name == "demo" { // whose help refers to leader doctor
				continue
			}
			flags++
			if got := regexp.MustCompile(`[a-z][a-z0-9+]*://`).FindAllString(flag.Help, -1); !slices.Equal(got, want) {
				t.Errorf("leader %s --store: the help names %v, and the program opens %v", node.Path(), got, want)
			}
		}
	}
	if flags < 10 {
		t.Errorf("%d commands take --store", flags)
	}
}

// jsonFlag is how a command that prints JSON is told to.
func jsonFlag(node *kong.Node) string {
	for _, flag := range node.Flags {
		if flag.Name == "json" {
			return "--json"
		}
	}
	return "-o json"
}

func printsJSON(node *kong.Node) bool {
	for _, flag := range node.Flags {
		if flag.Name == "json" || flag.Name == "output" && flag.EnumMap()["json"] {
			return true
		}
	}
	return false
}

// directory returns where the source of one of our packages is.
func directory(pkg string) string {
	path, ours := strings.CutPrefix(pkg, "github.com/seed-ff2cb582/leader")
	if !ours {
		return ""
	}
	return filepath.Join("..", "..", filepath.FromSlash(path))
}

func TestEveryCommandShowsExamplesAndExitStatus(t *testing.T) {
	t.Parallel()
	for _, node := range model(t).Leaves(true) {
		path := node.FullPath()
		code, out, stderr := runProgram(t, nil, append(strings.Fields(path)[1:], "--help")...)
		if code != 0 || stderr != "" {
			t.Errorf("%s --help: exit status %d, stderr %q", path, code, stderr)
		}
		called := path
		if node.Parent.DefaultCmd == node {
			called = node.Parent.FullPath() // its own name need not be said
		}
		for _, want := range []string{"Exit status", "Example", `\n {2,}(\S+ \| )?` + called + `\b`} {
			if !regexp.MustCompile(want).MatchString(out) {
				t.Errorf("%s --help: no %q in\n%s", path, want, out)
			}
		}
	}
}

func TestManualPageHasEveryCommand(t *testing.T) {
	t.Parallel()
	_, out, _ := runProgram(t, nil, "man")
	for _, node := range model(t).Leaves(true) {
		title := ".SH " + node.FullPath()
		if !strings.Contains(out, title+"\n") {
			t.Errorf("no section %q", title)
		}
	}
	groff, err := exec.LookPath("groff")
	if err != nil {
		return // the commands are there, and nothing here can read the rest
	}
	cmd := exec.CommandContext(t.Context(), groff, "-man", "-Tutf8", "-Kutf8", "-ww", "-z")
	var said bytes.Buffer
	cmd.Stdin, cmd.Stderr = strings.NewReader(out), &said
	if err := cmd.Run(); err != nil || said.Len() > 0 {
		t.Errorf("groff: %v\n%s", err, said.String())
	}
}

func TestHelpOfTheProgram(t *testing.T) {
	t.Parallel()
	code, out, stderr := execute(t, []string{"COLUMNS=100"}, "--help")
	if code != 0 || stderr != "" {
		t.Fatalf("exit status %d, stderr %q", code, stderr)
	}
	golden(t, "testdata/help.txt", []byte(out))
	if code, bare, _ := execute(t, []string{"COLUMNS=100"}); code != 0 || bare != out {
		t.Errorf("without arguments: exit status %d\n%s", code, bare)
	}
}

func TestUnknownWordsAreNamedWithWhatIsMeant(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ line, want, see string }{
		{"gte reports", `leader: unexpected argument gte, did you mean "get"?`, "leader"},
		{"frobnicate", `leader: unexpected argument frobnicate`, "leader"},
		{"ls --wach", `leader: unknown flag --wach, did you mean "--watch"?`, "leader ls"},
		{"ls -o xml", `leader: --output must be one of "table","wide","json","yaml","name" but got "xml"`, "leader ls"},
		{"get", `leader: get: <group>: is required`, "leader get"},
		{"get a b", `leader: unexpected argument b`, "leader get"},
		{"history show", `leader: history show: <group>: is required`, "leader history show"},
		{"run reports", `leader: expected "<program> ..."`, "leader run"},
		{
			"run reports sh -c true", "leader: -c stands after the program: write -- before it, and what follows is the program's\n" +
				"leader:   leader run reports -- sh -c true", "leader run",
		},
		{
			"run reports ./x -v --on-exit=stay a", "leader: -v stands after the program: write -- before it, and what follows is the program's\n" +
				"leader:   leader run reports -- ./x -v --on-exit=stay a", "leader run",
		},
		{"help gte", `leader: unexpected argument gte, did you mean "get"?`, "leader"},
		{"token", `leader: expected one of "verify", "keygen", "sign"`, "leader token"},
		{"ls --timeout soon", `leader: --timeout: expected duration but got "soon": time: invalid duration "soon"`, "leader ls"},
		{"completion tcsh", `leader: <shell> must be one of "bash","zsh","fish","powershell" but got "tcsh"`, "leader completion"},
		{"dash --http nope", `leader: dash: --http "nope": must be HOST:PORT, such as 127.0.0.1:9464, or :9464 for every address of the machine`, "leader dash"},
		{"run --http 8080 g -- true", `leader: run: --http "8080": must be HOST:PORT, such as 127.0.0.1:9464, or :9464 for every address of the machine`, "leader run"},
	} {
		code, out, stderr := runProgram(t, nil, strings.Fields(c.line)...)
		if want := c.want + "\nleader: see " + c.see + " --help\n"; code != 2 || out != "" || stderr != want {
			t.Errorf("leader %s: exit status %d, stdout %q, stderr %q, want %q", c.line, code, out, stderr, want)
		}
	}
}

func TestHelpIsACommandToo(t *testing.T) {
	t.Parallel()
	for line, same := range map[string]string{
		"help": "--help", "help ls": "ls --help", "help history": "history --help", "help token verify": "token verify --help", "help bucket": "bucket --help",
	} {
		_, want, _ := runProgram(t, nil, strings.Fields(same)...)
		if code, out, stderr := runProgram(t, nil, strings.Fields(line)...); code != 0 || out != want || stderr != "" {
			t.Errorf("leader %s: exit status %d, stderr %q\n%s", line, code, stderr, out)
		}
	}
}

// Examples are not folded, since they are to be copied: on 80 columns a longer
// one would be broken within words.
func TestHelpFitsATerminalOf80Columns(t *testing.T) {
	t.Parallel()
	for _, node := range model(t).Leaves(true) {
		_, out, _ := runProgram(t, nil, append(strings.Fields(node.FullPath())[1:], "--help")...)
		for line := range strings.Lines(out) {
			if n := ansi.StringWidth(strings.TrimRight(line, "\n")); n > 80 {
				t.Errorf("%s --help: %d columns: %s", node.FullPath(), n, line)
			}
		}
	}
}

// BenchmarkHelp measures how long the program takes to start: each op is one
// process.
func BenchmarkHelp(b *testing.B) {
	for b.Loop() {
		if err := exec.CommandContext(b.Context(), program, "--help").Run(); err != nil {
			b.Fatal(err)
		}
	}
}

// inCode are the parts of a page that are code: blocks first, then what stands
// between backquotes.
var inCode = regexp.MustCompile("(?s)```.*?```|`[^`]+`")

// commandLine is a call of the command: at the beginning of a line of code, or
// behind what comes before a command there. It ends where another one begins.
var commandLine = regexp.MustCompile(`(?m)(?:^|[$|&(] ?|sudo |=\S+ )leader +([^\n|&;#<>)]+)`)

// anything is an argument that may have anything in it.
var anything = regexp.MustCompile(`'[^']*'|"[^"]*"`)

// A command line that a reader copies must name commands and flags that exist,
// in the order that the parser wants.
func TestCommandsInTheDocumentationExist(t *testing.T) {
	t.Parallel()
	var files []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/adr/*.md", "examples/*/*.md"} {
		found, err := filepath.Glob(repository(pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(found), err)
		}
		files = append(files, found...)
	}
	cli, calls := model(t), 0
	for _, file := range files {
		if filepath.Base(file) == "track-record.md" {
			continue // it shows calls that are wrong on purpose
		}
		page, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, code := range inCode.FindAllString(string(page), -1) {
			if !strings.HasPrefix(code, "```") {
				code = strings.ReplaceAll(code, "\n", " ") // a paragraph was wrapped there
			}
			for _, call := range commandLine.FindAllStringSubmatch(strings.ReplaceAll(strings.Trim(code, "`"), "\\\n", " "), -1) {
				calls++
				if wrong := wrongCall(cli.Node, strings.Fields(anything.ReplaceAllString(call[1], "TEXT"))); wrong != "" {
					t.Errorf("%s: leader %s: %s", file, call[1], wrong)
				}
			}
		}
	}
	if calls < 100 {
		t.Errorf("%d calls are found", calls)
	}
}

// wrongCall says what of a call is not there: a command or a flag. Arguments
// may be anything.
func wrongCall(node *kong.Node, words []string) string {
	for len(words) > 0 {
		next := childOf(node, words[0])
		if next == nil {
			break
		}
		node, words = next, words[1:]
	}
	if node.DefaultCmd != nil && node.Type != kong.ApplicationNode {
		node = node.DefaultCmd // its name need not be said
	}
	if len(words) > 0 && node.Type == kong.ApplicationNode && !strings.HasPrefix(words[0], "-") {
		return "no command " + words[0]
	}
	known := map[string]bool{"--help": true}
	for _, group := range node.AllFlags(false) {
		for _, flag := range group {
			known["--"+flag.Name], known["-"+string(flag.Short)] = true, true
		}
	}
	for _, word := range words {
		name, _, _ := strings.Cut(strings.TrimRight(word, "`'\",:"), "=")
		if word == "--" {
			break // what follows is the program's
		}
		if len(name) > 1 && name[0] == '-' && !known[name] {
			return "no flag " + name + " of " + node.FullPath()
		}
	}
	return ""
}

func childOf(node *kong.Node, name string) *kong.Node {
	for _, child := range node.Children {
		if child.Name == name || slices.Contains(child.Aliases, name) {
			return child
		}
	}
	return nil
}
