package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// A market is a module proxy in a directory, which serves the released modules
// of a tree at one version, as a proxy will once the tags are pushed. It is the
// only place where those are found: no workspace, no replace directive.
type market struct {
	tree    *tree // a copy, with the versions set
	version string
	proxy   string
	cache   string   // a GOMODCACHE
	scratch string   // a GOPATH, and what else is written
	env     []string // by which the go command knows nothing else
}

// open copies the tree into dir, sets the version there, and serves the
// modules.
func open(ctx context.Context, t *tree, version, dir string) (*market, error) {
	files, err := t.files(ctx)
	if err != nil {
		return nil, err
	}
	m := &market{
		version: version, proxy: filepath.Join(dir, "proxy"), cache: filepath.Join(dir, "modcache"), scratch: filepath.Join(dir, "scratch"),
	}
	copied := filepath.Join(dir, "tree")
	for _, name := range files {
		if err := copyFile(t.in(name), filepath.Join(copied, name)); err != nil {
			return nil, err
		}
	}
	if m.tree, err = readTree(copied); err != nil {
		return nil, err
	}
	if err := m.tree.setVersions(files, version); err != nil {
		return nil, err
	}
	if m.tree, err = readTree(copied); err != nil {
		return nil, err
	}
	for _, mod := range m.released() {
		if err := m.serve(mod, files); err != nil {
			return nil, fmt.Errorf("%s: %w", mod.path, err)
		}
	}
	err = m.prepare(ctx)
	return m, err
}

func (m *market) released() (all []*mod) {
	for _, mod := range m.tree.modules {
		if mod.released {
			all = append(all, mod)
		}
	}
	return all
}

func copyFile(from, to string) (err error) {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // it was read
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, info.Mode().Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// A source is a file of a module, at another place in the tree.
type source struct{ name, file string }

func (s source) Path() string                 { return s.name }
func (s source) Lstat() (os.FileInfo, error)  { return os.Lstat(s.file) }
func (s source) Open() (io.ReadCloser, error) { return os.Open(s.file) }

// serve puts a module into the proxy, as the go command makes one from a tag:
// the files below its directory without the files of modules within, and the
// licence of the repository if the module has none.
func (m *market) serve(mod *mod, files []string) error {
	if len(mod.file.Replace) > 0 {
		return errors.New("go install refuses a module that replaces others")
	}
	var all []zip.File
	licensed := false
	for _, name := range files {
		inside := name
		if mod.dir != "." {
			var ok bool
			if inside, ok = strings.CutPrefix(name, mod.dir+"/"); !ok {
				continue
			}
		}
		licensed = licensed || inside == "LICENSE"
		all = append(all, source{inside, m.tree.in(name)})
	}
	if !licensed {
		all = append(all, source{"LICENSE", m.tree.in("LICENSE")})
	}
	at := filepath.Join(m.proxy, filepath.FromSlash(mod.path), "@v")
	if err := os.MkdirAll(at, 0o755); err != nil {
		return err
	}
	info, err := json.Marshal(map[string]any{"Version": m.version, "Time": time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)})
	if err != nil {
		return err
	}
	err = errors.Join(
		os.WriteFile(filepath.Join(at, "list"), []byte(m.version+"\n"), 0o600),
		os.WriteFile(filepath.Join(at, m.version+".info"), info, 0o600),
		copyFile(m.tree.in(mod.dir, "go.mod"), filepath.Join(at, m.version+".mod")),
	)
	if err != nil {
		return err
	}
	out, err := os.Create(filepath.Join(at, m.version+".zip"))
	if err != nil {
		return err
	}
	return errors.Join(zip.Create(out, module.Version{Path: mod.path, Version: m.version}, all), out.Close())
}

// prepare makes the module cache: a new one for this project's modules, and for
// the rest links to the user's cache, which holds hundreds of megabytes that
// are unpacked already.
func (m *market) prepare(ctx context.Context) error {
	shared, err := output(ctx, m.tree.root, nil, "go", "env", "GOMODCACHE")
	if err != nil {
		return err
	}
	ours := strings.Split(m.tree.path, "/")
	ours = ours[:len(ours)-1] // the repository's owner
	for _, sub := range []string{"", filepath.Join("cache", "download")} {
		if err := link(filepath.Join(shared, sub), filepath.Join(m.cache, sub), ours, []string{"cache"}); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(m.scratch, 0o755); err != nil {
		return err
	}
	proxies, err := output(ctx, m.tree.root, nil, "go", "env", "GOPROXY")
	if err != nil {
		return err
	}
	m.env = append(os.Environ(), "GOWORK=off", "GOMODCACHE="+m.cache, "GOPATH="+m.scratch, "GOBIN=", "CGO_ENABLED=0",
		"GOPROXY="+fileURL(m.proxy)+","+fileURL(filepath.Join(shared, "cache", "download"))+","+proxies,
		// Ours are in no checksum database before they are published. The
		// others are held against go.sum, but for go install, which has none.
		"GOSUMDB=off", "GOPRIVATE=", "GONOPROXY=", "GOFLAGS=-trimpath -modcacherw", "GOTOOLCHAIN=local")
	return nil
}

// link makes a directory of links to what another holds, without what lies at
// the path not, and without the names but.
func link(from, to string, not, but []string) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := e.Name()
		switch {
		case slices.Contains(but, name):
		case name == not[0] && len(not) == 1:
		case name == not[0]:
			err = errors.Join(err, link(filepath.Join(from, name), filepath.Join(to, name), not[1:], nil))
		default:
			err = errors.Join(err, os.Symlink(filepath.Join(from, name), filepath.Join(to, name)))
		}
	}
	return err
}

func fileURL(dir string) string {
	return "file://" + path.Join("/", filepath.ToSlash(dir))
}

// output runs a command and returns what it printed.
func output(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, env
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, stderr.String())
	}
	return strings.TrimSpace(string(out)), nil
}

// resolve has the go command find every package of a module, and what those
// import, by the proxy alone, and fails if the module's requirements do not
// suffice. Only the sums of our own modules are added to its go.sum: they are
// of versions that were never published.
func (m *market) resolve(ctx context.Context, mod *mod) (packages int, err error) {
	dir := m.tree.in(mod.dir)
	before, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return 0, err
	}
	sums, err := os.ReadFile(filepath.Join(dir, "go.sum"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return 0, err
	}
	out, err := output(ctx, dir, append(slices.Clone(m.env), "GOFLAGS=-mod=mod -modcacherw"), "go", "list", "-deps", "./...")
	if err != nil {
		return 0, err
	}
	after, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return 0, err
	}
	if !bytes.Equal(before, after) {
		return 0, errors.New("go.mod lacks requirements: run make tidy")
	}
	if lines := m.added(dir, string(sums)); lines != "" {
		return 0, fmt.Errorf("go.sum lacks sums: run make tidy\n%s", lines)
	}
	return strings.Count(out, "\n") + 1, nil
}

// added returns the lines by which go.sum exceeds before, without the lines for
// this project's modules.
func (m *market) added(dir, before string) (lines string) {
	after, err := os.ReadFile(filepath.Join(dir, "go.sum"))
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(after)) {
		if !strings.Contains(before, line) && !strings.HasPrefix(line, m.tree.path) {
			lines += line
		}
	}
	return lines
}

// A somebody is the module of a user who requires all modules of this project
// at the version, and imports every package that others may import. Each module
// resolves by itself. Only here do all of them have to agree on what they
// require.
type somebody struct {
	dir      string
	env      []string
	packages []string // that are imported
}

// require makes a somebody, and has the go command find what the imports need,
// by the proxy alone. Nothing is compiled.
func (m *market) require(ctx context.Context) (*somebody, error) {
	by := &somebody{dir: filepath.Join(m.scratch, "somebody"), env: append(slices.Clone(m.env), "GOFLAGS=-trimpath -modcacherw -mod=mod")}
	file := "module example.org/somebody\n\ngo " + m.tree.modules[0].file.Go.Version + "\n"
	var requirements strings.Builder
	for _, mod := range m.released() {
		fmt.Fprintf(&requirements, "require %s %s\n", mod.path, m.version)
	}
	err := errors.Join(
		os.MkdirAll(by.dir, 0o755),
		os.WriteFile(filepath.Join(by.dir, "go.mod"), []byte(file+requirements.String()), 0o600),
	)
	if err != nil {
		return nil, err
	}
	// By way of the pattern, so that these are the proxy's packages and not the
	// tree's.
	found, err := output(ctx, by.dir, by.env, "go", "list", "-f", `{{if ne .Name "main"}}{{.ImportPath}}{{end}}`, m.tree.path+"/...")
	if err != nil {
		return nil, err
	}
	var imports strings.Builder
	for path := range strings.FieldsSeq(found) {
		if !strings.Contains(path+"/", "/internal/") {
			fmt.Fprintf(&imports, "import _ %q\n", path)
			by.packages = append(by.packages, path)
		}
	}
	if err := os.WriteFile(filepath.Join(by.dir, "main.go"), []byte("package main\n"+imports.String()+"func main() {}\n"), 0o600); err != nil {
		return nil, err
	}
	// No go mod tidy, which would fetch what the tests of other modules import.
	_, err = output(ctx, by.dir, by.env, "go", "list", "-deps", ".")
	return by, err
}

// build compiles all that is imported.
func (by *somebody) build(ctx context.Context) error {
	_, err := output(ctx, by.dir, by.env, "go", "build", "-o", os.DevNull, ".")
	return err
}

// install builds the command of the version, as go install does at a user's,
// for a platform such as linux/amd64, and returns the program's file.
func (m *market) install(ctx context.Context, platform string, flags ...string) (string, error) {
	return install(ctx, m.env, m.scratch, m.command(), platform, flags...)
}

// command is the package of the command, as go install takes it.
func (m *market) command() string { return m.tree.path + "/cmd/leader@" + m.version }

// install has the go command install a package into gopath, and returns the
// program's file.
func install(ctx context.Context, env []string, gopath, pkg, platform string, flags ...string) (string, error) {
	goos, goarch, _ := strings.Cut(platform, "/")
	env = append(slices.Clone(env), "GOOS="+goos, "GOARCH="+goarch)
	if _, err := output(ctx, gopath, env, "go", append(append([]string{"install"}, flags...), pkg)...); err != nil {
		return "", err
	}
	name := "leader"
	if goos == "windows" {
		name += ".exe"
	}
	for _, dir := range []string{filepath.Join("bin", goos+"_"+goarch), "bin"} {
		file := filepath.Join(gopath, dir, name)
		if _, err := os.Stat(file); err == nil {
			return file, nil
		}
	}
	return "", fmt.Errorf("go install for %s left no program", platform)
}
