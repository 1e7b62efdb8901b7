package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/charmbracelet/x/ansi"
	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/demo"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/devtest"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/read"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/reference"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/steer"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/stores"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/version"
)

var update = flag.Bool("update", false, "rewrite docs/reference/commands.md and the golden files")

// printed is what the commands print as JSON, each by a value of its type; for
// nil, the help describes it.
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
	"drain":         steer.DrainResult{},
	"undrain":       steer.DrainResult{},
	"vacate":        steer.Result{},
	"forget":        steer.Result{},
	"bucket create": nil, "bucket check": nil, "announce": nil, "campaign": nil, "doctor": nil,
	"demo":    demo.Event{},
	"version": version.Info{},
}

// model returns what the parser knows of all commands.
func model(t *testing.T) *kong.Application {
	t.Helper()
	known, err := newParser(app.Streams{}, nil, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	return known.Model
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
	if natsOnly() {
		t.Skip("the reference describes the whole command: its help names all stores")
	}
	cli := model(t)
	source := &fieldSource{dir: directory, first: map[reflect.Type]string{}}
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
		if first := source.first[element(reflect.TypeOf(value))]; first != "" {
			printing[node.FullPath()] = "`" + jsonFlag(node) + "` prints the fields of [" + first + "](" + anchor(first) + ").\n\n"
			continue
		}
		fields, err := source.describe(node.FullPath(), value)
		if err != nil {
			t.Fatal(err)
		}
		printing[node.FullPath()] = "`" + jsonFlag(node) + "` prints:\n\n" + fields + "\n"
	}
	page, err := reference.Markdown(cli, func(command string) string { return printing[command] })
	if err != nil {
		t.Fatal(err)
	}
	golden(t, repository("docs/reference/commands.md"), page)
}

func anchor(command string) string { return "#" + strings.ReplaceAll(command, " ", "-") }

// element returns the type of a list's elements.
func element(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Slice {
		return t.Elem()
	}
	return t
}

// jsonFlag returns the flag with which a command prints JSON.
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

// A fieldSource describes the fields of what a command prints as JSON, by the
// comments of their types.
type fieldSource struct {
	dir func(pkg string) string // where a package is, "" if it has no source

	first map[reflect.Type]string // the command under which a type is described

	comments map[string]string // by "pkg.Type.Field"
	loaded   map[string]bool
}

// A field has a path like candidates[].id and a type as JSON has it.
type field struct{ path, kind, help string }

// describe returns a list of the fields of a value's JSON, under a command. It
// refers to an earlier command for the fields of an embedded type.
func (s *fieldSource) describe(command string, value any) (string, error) {
	var fields []field
	var list strings.Builder
	err := s.walk(reflect.TypeOf(value), "", &fields)
	s.first[element(reflect.TypeOf(value))] = command
	for _, f := range fields {
		line := "- " + strings.TrimPrefix("`"+f.path+"` ", "`` ") + f.kind
		if f.help != "" {
			line += ": " + strings.NewReplacer("<", `\<`, "*", `\*`).Replace(f.help)
		}
		list.WriteString(strings.ReplaceAll(ansi.Wordwrap(line, 118, " "), "\n", "\n  ") + "\n")
	}
	return list.String(), err
}

// walk adds the fields of a type, whose place is the path.
func (s *fieldSource) walk(t reflect.Type, path string, fields *[]field) error {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		if t.Kind() == reflect.Slice {
			path += "[]"
		}
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || leaf(t) {
		return nil
	}
	if err := s.load(t.PkgPath()); err != nil {
		return err
	}
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if first := s.first[f.Type]; first != "" && f.Anonymous {
			*fields = append(*fields, field{kind: "the fields of [" + first + "](" + anchor(first) + ")"})
			continue
		}
		if f.Anonymous && name == "" {
			if err := s.walk(f.Type, path, fields); err != nil {
				return err
			}
			continue
		}
		if name == "-" || !f.IsExported() {
			continue
		}
		full := strings.TrimPrefix(path+"."+cmp.Or(name, f.Name), ".")
		*fields = append(*fields, field{full, jsonKind(f.Type), s.comments[key(t.PkgPath(), t.Name(), f.Name)]})
		if err := s.walk(f.Type, full, fields); err != nil {
			return err
		}
	}
	return nil
}

func key(pkg, typ, field string) string { return pkg + "." + typ + "." + field }

// leaf reports whether a type is printed as one value.
func leaf(t reflect.Type) bool {
	text := reflect.TypeFor[encoding.TextMarshaler]()
	return t.Implements(text) || reflect.PointerTo(t).Implements(text)
}

func jsonKind(t reflect.Type) string {
	switch {
	case t.Kind() == reflect.Pointer:
		return jsonKind(t.Elem())
	case t == reflect.TypeFor[time.Time]():
		return "time"
	case t == reflect.TypeFor[time.Duration]():
		return "number (nanoseconds)"
	case t == reflect.TypeFor[[]byte]():
		return "string (base64)"
	case leaf(t):
		return "string"
	}
	switch t.Kind() {
	case reflect.Bool:
		return "boolean"
	case reflect.String:
		return "string"
	case reflect.Slice, reflect.Array:
		return "list"
	case reflect.Struct, reflect.Map:
		return "object"
	default:
		return "number"
	}
}

// load reads the comments of a package's types.
func (s *fieldSource) load(pkg string) error {
	if s.loaded == nil {
		s.loaded, s.comments = map[string]bool{}, map[string]string{}
	}
	dir := s.dir(pkg)
	if s.loaded[pkg] || dir == "" {
		return nil
	}
	s.loaded[pkg] = true
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, e.Name()), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return fmt.Errorf("comments of %s: %w", pkg, err)
		}
		s.collect(pkg, file)
	}
	return nil
}

func (s *fieldSource) collect(pkg string, file *ast.File) {
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		if st, ok := spec.Type.(*ast.StructType); ok {
			for _, f := range st.Fields.List {
				text := cmp.Or(f.Doc.Text(), f.Comment.Text())
				for _, name := range f.Names {
					s.comments[key(pkg, spec.Name.Name, name.Name)] = strings.Join(strings.Fields(text), " ")
				}
			}
		}
		return true
	})
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
			called = node.Parent.FullPath() // its own name can be left out
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
	code, out, stderr := runProgram(t, nil, "--help")
	if code != 0 || stderr != "" {
		t.Fatalf("exit status %d, stderr %q", code, stderr)
	}
	golden(t, "testdata/help.txt", []byte(out))
	if code, bare, _ := runProgram(t, nil); code != 0 || bare != out {
		t.Errorf("without arguments: exit status %d\n%s", code, bare)
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

func TestCommandHasTheSameHelpWithoutTheOthers(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	help := func(of *kong.Kong, line []string) string {
		out.Reset()
		_, _ = of.Parse(line) // help comes first, whatever else is wrong
		return out.String()
	}
	build := func(opts ...kong.Option) *kong.Kong {
		built, err := newParser(app.Streams{Out: &out, Err: &out}, nil, func(int) {}, opts...)
		if err != nil {
			t.Fatal(err)
		}
		return built
	}
	whole := build()
	for _, node := range whole.Model.Leaves(false) {
		line := slices.Concat(strings.Fields(node.FullPath())[1:], []string{"--help"})
		part := build(alone(line))
		if got, want := help(part, line), help(whole, line); got != want {
			t.Errorf("%q: %s\nwant %s", line, got, want)
		}
		known, want := len(part.Model.Children), 1
		if slices.Contains([]string{"completion", "man", "__complete"}, line[0]) {
			want = len(whole.Model.Children)
		}
		if known != want {
			t.Errorf("%q is parsed among %d commands, want %d", line, known, want)
		}
	}
}

// The help of --store names each kind of store that this program opens, and no
// other: built with natsonly it opens buckets of NATS, and quorums of them.
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

// BenchmarkHelp measures how long the program takes to start: each op is one
// process.
func BenchmarkHelp(b *testing.B) {
	for b.Loop() {
		if err := exec.CommandContext(b.Context(), program, "--help").Run(); err != nil {
			b.Fatal(err)
		}
	}
}

// inCode are the parts of a page that are code: blocks first, then text between
// backquotes.
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
	// By name: to list the root's directory would make Go's test cache look at
	// .git, which each git status changes.
	files := []string{repository("README.md"), repository("CONTRIBUTING.md"), repository("CHANGELOG.md"), repository("SECURITY.md")}
	for _, pattern := range []string{"docs/*.md", "docs/*/*.md", "docs/*/*/*.md", "examples/*/*.md"} {
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

// wrongCall returns the part of a call that does not exist: a command or a
// flag. Arguments may be anything.
func wrongCall(node *kong.Node, words []string) string {
	for len(words) > 0 {
		next := childOf(node, words[0])
		if next == nil {
			break
		}
		node, words = next, words[1:]
	}
	if node.DefaultCmd != nil && node.Type != kong.ApplicationNode {
		node = node.DefaultCmd // its name may be omitted
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

// bashComplete asks a bash with the script loaded for what it would offer at
// the end of the line. compopt works while a line is edited, and fails here.
const bashComplete = `
compopt() { :; }
source "$SCRIPT"
COMP_TYPE=${COMP_TYPE-63} # the names are listed, with what they mean
COMP_LINE=$LINE COMP_POINT=${#LINE} COMP_WORDS=(leader) COMP_WORDBREAKS=$' \t\n"\'><=;|&(:'
__start_leader
printf '%s\n' "${COMPREPLY[@]%%  (*}"
`

func TestBashCompletes(t *testing.T) {
	t.Parallel()
	checkShell(t, electionsToComplete(t), func(line string, env ...string) []string {
		return offered(inBash(t, bashComplete, append(env, "LINE="+line)...))
	})
}

// Whoever can write to the bucket chooses the names, and bash runs the line
// that it completed.
func TestBashQuotesNames(t *testing.T) {
	t.Parallel()
	names := []string{
		"$(touch made)", "\"", "'; touch made; '", "'\u2019", "`touch made`", "a\\ b", "a b", "a b:$(touch made)", "caf\u00e9$(touch made)", "~", "#", "-n",
	}
	slices.Sort(names)
	url := devtest.Serve(t)
	nc, _ := devtest.Connect(t, url)
	for i, name := range names {
		lead(t, nc, fmt.Sprintf("g%d", i), name)
	}
	const accept = bashComplete + `
cd "$HOME"
eval "set -- ${COMPREPLY[*]}"
printf 'WORD %s\n' "$@" *
`
	for _, locale := range []string{"C", "C.UTF-8"} {
		out := inBash(t, accept, "LINE=leader drain -s "+url+" ", "COMP_TYPE=37", "LC_ALL="+locale)
		_, out, _ = strings.Cut(out, "WORD ")
		got := strings.Split(strings.TrimSuffix(out, "\n"), "\nWORD ")
		if want := append(slices.Clone(names), "*"); !slices.Equal(got, want) { // there is no file
			t.Errorf("%s: bash understood %q, want %q", locale, got, want)
		}
	}
	for line, want := range map[string]string{
		`leader drain -s ` + url + ` a\ b:`:   `\$\(touch\ made\)`, // after the last :, where bash begins a word
		`leader drain -s ` + url + ` \"`:      `\"`,
		"leader ls x\ntouch $HOME/made\nls y": "",
	} {
		out := inBash(t, bashComplete+`cd "$HOME"; printf %s *`, "LINE="+line, "COMP_TYPE=37")
		if out != want+"\n*" {
			t.Errorf("%q: offered %q, want %q", line, out, want)
		}
	}
}

// inBash runs commands in a bash that finds the program and its script, in an
// empty home.
func inBash(t *testing.T, commands string, env ...string) string {
	t.Helper()
	needsUnix(t)
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("bash is not installed")
	}
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte(scriptFor(t, "bash")), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := command(t, append(env, "SCRIPT="+script, "HOME="+t.TempDir(), "XDG_CONFIG_HOME=",
		"PATH="+linked(t)+string(os.PathListSeparator)+os.Getenv("PATH")))
	cmd.Path, cmd.Args = bash, []string{"bash", "-c", commands}
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%q: %v", env, err)
	}
	return string(out)
}

func scriptFor(t *testing.T, shell string) string {
	t.Helper()
	code, out, stderr := runProgram(t, nil, "completion", shell)
	if code != 0 || stderr != "" || !strings.Contains(out, " __complete ") {
		t.Fatalf("%s: exit status %d, stderr %q\n%s", shell, code, stderr, out)
	}
	return out
}

func TestOtherShellsHaveScriptsToo(t *testing.T) {
	t.Parallel()
	for _, shell := range []string{"zsh", "fish", "powershell"} {
		scriptFor(t, shell)
	}
}

func checkShell(t *testing.T, url string, ask func(string, ...string) []string) {
	t.Helper()
	for _, c := range []struct {
		line string
		want []string // after the last =, where bash begins a word
	}{
		{"leader st", []string{"step-down"}},
		{"leader help st", []string{"step-down"}},
		{"leader ls --ou", []string{"--output"}},
		{"leader ls -o y", []string{"yaml"}},
		{"leader history en", []string{"enable"}},
		{"leader get -s " + url + " jo", []string{"jobs.eu"}},
		{"leader get --server=" + url + " ", []string{"a=b", "jobs.eu", "reports"}},
		{"leader get -s " + url + " a=", []string{"b"}},
		{"leader ls --output=js", []string{"json"}},
	} {
		got := ask(c.line)
		if !slices.Equal(got, c.want) {
			t.Errorf("%q: offered %q, want %q", c.line, got, c.want)
		}
	}
	if got := ask("leader get re", "NATS_URL="+url); !slices.Equal(got, []string{"reports"}) {
		t.Errorf("with NATS_URL: offered %q", got)
	}
}

// offered returns the words without what they mean, in order.
func offered(out string) (words []string) {
	for line := range strings.Lines(out) {
		if word, _, _ := strings.Cut(strings.TrimSpace(line), "\t"); word != "" {
			words = append(words, word)
		}
	}
	slices.Sort(words)
	return words
}

// linked returns a directory with the program under the name that the scripts
// complete.
func linked(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Symlink(program, filepath.Join(dir, "leader")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// electionsToComplete returns the URL of a server with three groups in the
// default bucket.
func electionsToComplete(t *testing.T) string {
	t.Helper()
	url := devtest.Serve(t)
	nc, _ := devtest.Connect(t, url)
	for _, group := range []string{"reports", "jobs.eu", "a=b"} {
		lead(t, nc, group, "w1")
	}
	return url
}

// lead has an instance lead a group of the default bucket.
func lead(t *testing.T, nc *nats.Conn, group, instance string) {
	t.Helper()
	e, err := leader.NewElection(nc, leader.ElectionConfig{
		Bucket: "leaders", BucketAutoCreate: true, Group: group, InstanceID: instance, TTL: 30 * time.Second, HeartbeatInterval: time.Second,
		AcquireGrace: leader.GraceOff,
	})
	if err != nil {
		t.Fatal(err)
	}
	promoted := make(chan struct{})
	e.OnPromote(func(context.Context, string) { close(promoted) })
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Stop() })
	select {
	case <-promoted:
	case <-time.After(patience):
		t.Fatalf("nobody leads %s", group)
	}
}

func TestCompletionNeedsNoServer(t *testing.T) {
	t.Parallel()
	var lc net.ListenConfig
	silent, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0") // accepts, and sends nothing
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	for _, url := range []string{"nats://127.0.0.1:1", "nats://" + silent.Addr().String(), "://"} {
		code, out, _ := runProgram(t, nil, "__complete", "get", "--server", url, "")
		if code != 0 || out != ":4\n" {
			t.Errorf("%s: exit status %d, stdout %q", url, code, out)
		}
	}
}

func TestCompletionLeavesForgottenGroupsOut(t *testing.T) {
	l := forgetOne(t)
	for _, c := range []struct {
		line string
		want bool
	}{{"get ", false}, {"watch ", false}, {"ls --all ", true}, {"ls -a ", true}} {
		out, _ := l.run(0, append([]string{"__complete"}, strings.Split(c.line, " ")...)...)
		if !strings.Contains(out, "other\t") || strings.Contains(out, steered) != c.want {
			t.Errorf("leader %s: offered\n%s", c.line, out)
		}
	}
}

func TestUnknownWordsAreNamedWithWhatIsMeant(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ line, want, see string }{
		{"gte reports", `leader: unexpected argument gte, did you mean "get"?`, "leader"},
		{"frobnicate", `leader: unexpected argument frobnicate`, "leader"},
		{"ls --wach", `leader: unknown flag --wach, did you mean "--watch"?`, "leader ls"},
		{"ls -o xml", `leader: --output must be one of "table","wide","json","yaml","name" but got "xml"`, "leader ls"},
		{"campaign g --profile fast", `leader: --profile must be one of "low-latency","stable","high-throughput" but got "fast"`, "leader campaign"},
		{"get", `leader: get: <group>: is required`, "leader get"},
		{"campaign", `leader: campaign: <group>: is required`, "leader campaign"},
		{"pause", `leader: pause: <group>: is required`, "leader pause"},
		{"get a b", `leader: unexpected argument b`, "leader get"},
		{"history show", `leader: history show: <group>: is required`, "leader history show"},
		{"run", "leader: run: <group>: is required\nleader: <program>: is required", "leader run"},
		{"run reports", `leader: run: <program>: is required`, "leader run"},
		{
			"run reports sh -c true", "leader: -c comes after the program: write -- before the program, and all that follows is the program's\n" +
				"leader:   leader run reports -- sh -c true", "leader run",
		},
		{
			"run reports ./x -v --on-exit=stay a", "leader: -v comes after the program: write -- before the program, and all that follows is the program's\n" +
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

// internals are the library's internal words, which mean nothing to a reader
// who has never seen its source.
var internals = regexp.MustCompile(`BucketAutoCreate|InstanceID|HeartbeatInterval|permanent failure|transient failure|deadline exceeded|invalid configuration|usage:`)

// A mistake is a line, without the name of the program, its exit status, and
// what stderr must contain.
type mistake struct {
	line string
	want int
	says []string
}

// judge runs each line beside the lab's server.
func judge(t *testing.T, l *readLab, mistakes []mistake) {
	t.Helper()
	for _, c := range mistakes {
		code, out, stderr := runProgram(t, []string{"NATS_URL=" + l.url}, strings.Fields(c.line)...)
		if code != c.want {
			t.Errorf("leader %s: exit status %d, want %d: %s", c.line, code, c.want, stderr)
		}
		if c.want == app.ExitUsage && out != "" {
			t.Errorf("leader %s: stdout %q", c.line, out)
		}
		if word := internals.FindString(stderr); word != "" {
			t.Errorf("leader %s prints %q: %s", c.line, word, stderr)
		}
		for _, want := range c.says {
			if !strings.Contains(stderr, want) {
				t.Errorf("leader %s: no %q in %q", c.line, want, stderr)
			}
		}
		for line := range strings.Lines(stderr) {
			if strings.Contains(line, "remote") || strings.Contains(line, "secret") {
				t.Errorf("leader %s prints too much: %q", c.line, line)
			}
			if !strings.HasPrefix(line, "leader: ") {
				t.Errorf("leader %s: a line without the command's name: %q", c.line, line)
			}
		}
	}
}

// Each entry makes one kind of mistake. The command exits with a documented
// status, and its error uses the names of the flags.
func TestMistakesHaveTheirStatusAndTheWordsOfTheCommandLine(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	var lc net.ListenConfig
	deaf, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0") // accepts, and sends nothing
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = deaf.Close() }()
	silent := deaf.Addr().String()
	judge(t, l, []mistake{
		{"ls -b b..d", 2, []string{`--bucket "b..d": must be 1 to 255`}},
		{"get g -b b..d", 2, []string{`--bucket "b..d"`}},
		{"history g -b b..d", 2, []string{`--bucket "b..d"`}},
		{"history enable -b b..d", 2, []string{`--bucket "b..d"`}},
		{"watch --advisories -b b..d", 2, []string{`--bucket "b..d"`}},
		{"token verify g --term 1 -b b..d", 2, []string{`--bucket "b..d"`}},
		{"step-down g -y -b b..d", 2, []string{`--bucket "b..d"`}},
		{"bucket create b..d", 2, []string{`bucket "b..d": must be 1 to 255`}},
		{"bucket check b..d", 2, []string{`bucket "b..d"`}},
		{"doctor -b b..d", 2, []string{`--bucket "b..d"`}},
		{"campaign g -b b..d", 2, []string{`--bucket "b..d"`}},
		{"campaign g --ttl 1ms", 2, []string{`--ttl 1ms: must be from 50ms`}},
		{"campaign g --ttl 3s --heartbeat 2s", 2, []string{`--ttl 3s: must be at least 3 × --heartbeat (2s)`}},
		{"campaign g --program-version v! --check-interval 1s --check true", 2, []string{`--program-version "v!": must be`}},
		{"campaign a..b", 2, []string{`group "a..b": must be`}},
		{"campaign _ctl.g", 2, []string{`"_ctl.g"`}},
		{"campaign g --check-interval 1s", 2, []string{"--check-interval"}},
		{"campaign g --ttl 3s --foreign-ttl 2s", 2, []string{"--foreign-ttl 2s: must be 0, or from --ttl (3s) to 1h"}},
		{"run g --ttl 3s --foreign-ttl 2s -- true", 2, []string{"--foreign-ttl 2s: must be 0, or from --ttl (3s) to 1h"}},
		{"run g --ttl 3s --heartbeat 2s -- true", 2, []string{"--ttl 3s", "at least 3 × --heartbeat"}},
		{"run g --ttl 3s --heartbeat 1s --stop-timeout 2s -- true", 2, []string{"--stop-timeout 2s", "at most 550ms"}},
		{"run g --ttl=-1s --stop-timeout=-2s -- true", 2, []string{"--ttl -1s: must not be negative", "--stop-timeout -2s: must not be negative"}},
		{"run g --on-exit retire -- true", 2, []string{"--on-exit", `"retire"`}},
		{"run g --every 1m -- true", 2, []string{"--every: has no effect without --once"}},
		{"run g --once --every 0s -- true", 2, []string{"--every 0s: must be at least 1s"}},
		{"run g --once --try -- true", 2, []string{"--once: not with --try"}},
		{"run g --once -n 2 -- true", 2, []string{"--once: not with --slots"}},
		{"run g --once --on-exit restart -- true", 2, []string{"--once: not with --on-exit restart"}},
		{"run g --slots 0 -- true", 2, []string{"--slots 0: must be 1 to 1000"}},
		{"run g --proof-for archive -- true", 2, []string{"--proof-for: needs --proof-key"}},
		{"ls jobs.>.x", 2, []string{`"jobs.>.x"`}},
		{"ls -w -o yaml", 2, []string{"--output yaml"}},
		{"ls --dev -s nats://127.0.0.1:1", 2, []string{"--dev"}},
		{"ls --timeout 0s", 2, []string{"--timeout 0s"}},
		{"watch *x", 2, []string{`"*x"`}},
		{"watch --count=-1", 2, []string{"--count -1"}},
		{"watch --advisories --all", 2, []string{"--all: not with --advisories"}},
		{"get jobs.*", 2, []string{`"jobs.*"`}},
		{"history g --at noon", 2, []string{`--at "noon"`}},
		{"history g --since soon", 2, []string{`--since "soon"`}},
		{"history enable --max-age 1ms", 2, []string{"--max-age 1ms"}},
		{"demo --ttl 1ms", 2, []string{"--ttl 1ms: must be from"}},
		{"demo --workers 0", 2, []string{"--workers 0"}},
		{"demo --plain --json", 2, []string{"--json"}},
		{"demo --script 3s", 2, []string{`"3s"`}},
		{"demo --bucket b..d", 2, []string{`--bucket "b..d"`}},
		{"demo --context no-such", 2, []string{`"no-such"`}},
		{"demo --server nats://u:secret@127.0.0.1:1", 1, []string{"127.0.0.1:1"}},
		{"demo-worker", 1, []string{"leader demo"}},
		{"step-down g", 2, []string{"--yes: is required"}},
		{"ls -b missing", 5, []string{`bucket "missing" does not exist`, "leader bucket create"}},
		{"watch -b missing", 5, []string{`bucket "missing" does not exist`}},
		{"history enable -b missing", 5, []string{"leader bucket create missing"}},
		{"history g", 5, []string{"leader history enable"}},
		{"bucket create three --replicas 3", 5, []string{"--replicas 3", "non-clustered"}},
		{"ls -s nats://127.0.0.1:1", 1, []string{"nats://127.0.0.1:1", "--server", "--dev"}},
		{"doctor -s nats://127.0.0.1:1", 1, []string{"--server", "--dev"}},
		{"step-down g -y -s nats://127.0.0.1:1", 1, []string{"--server", "--dev"}},
		{"ls --timeout 1s -s nats://" + silent, 6, []string{silent, "timeout"}},
		{"ls --store foo://x", 2, []string{`--store: the store's URL has the scheme "foo"`}},
		{"dash --allow-control --by= --http 127.0.0.1:0", 2, []string{`--by "": must be 1 to 256 bytes`}},
		{"exporter --http 9464", 2, []string{`--http "9464"`}},
		{"agent --listen nowhere", 2, []string{`--listen "nowhere": must be HOST:PORT`}},
	})
}

func TestAProgramForNATSAloneReportsThat(t *testing.T) {
	if !natsOnly() {
		t.Skip("this program opens other stores, too")
	}
	t.Parallel()
	l := newReadLab(t)
	judge(t, l, []mistake{
		{"ls --store redis://127.0.0.1", 2, []string{`the scheme "redis"; known here are nats://`, "built with -tags natsonly"}},
		{"announce g --to etcd://127.0.0.1", 2, []string{"--to: this program was built with the tag natsonly"}},
	})
	if out, _ := l.run(0, "--version"); !strings.Contains(out, ", tags natsonly)") {
		t.Errorf("%q", out)
	}
}

func TestMistakesWithOtherStoresHaveTheirStatusToo(t *testing.T) {
	needsOtherStores(t)
	t.Parallel()
	judge(t, newReadLab(t), []mistake{
		{"ls --store redis://127.0.0.1?bogus=1", 2, []string{"--store: the store's URL", "bogus"}},
		{"announce g", 2, []string{"--to: is required, and must begin with etcd://"}},
		{"announce g --to gopher://ann:secret@x", 2, []string{`--to gopher://: must begin with etcd://`}},
	})
}
