package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

const (
	here    = "../.."
	version = "v0.1.0-test"
)

// TestTheModulesAreWhatAProxyWouldServe sets all modules to a version, in a
// copy, serves them from a directory as a proxy will once they are tagged, and
// uses them as those do who have neither go.work nor replace directives.
func TestTheModulesAreWhatAProxyWouldServe(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles all that the command needs")
	}
	tree, err := readTree(here)
	if err != nil {
		t.Fatal(err)
	}
	m, err := open(t.Context(), tree, version, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Run("Versions", func(t *testing.T) { everywhere(t, m) })
	t.Run("Workspace", func(t *testing.T) { development(t, m) })
	t.Run("Resolve", func(t *testing.T) {
		for _, mod := range m.released() {
			if _, err := m.resolve(t.Context(), mod); err != nil {
				t.Errorf("%s: %v", mod.path, err)
			}
		}
	})
	if runtime.GOOS != "linux" {
		t.Skip("images are of linux")
	}
	dir := filepath.Join(t.TempDir(), "release")
	s, err := newSnapshot(t.Context(), m, dir, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.add(t.Context(), "linux/"+runtime.GOARCH), s.finish()); err != nil {
		t.Fatal(err)
	}
	base := "leader_" + version + "_linux_" + runtime.GOARCH
	t.Run("Sums", func(t *testing.T) { sums(t, dir, base) })
	t.Run("Archive", func(t *testing.T) { archive(t, filepath.Join(dir, base+".tar.gz")) })
	t.Run("List", func(t *testing.T) { list(t, m, filepath.Join(dir, base+".cdx.json")) })
	t.Run("ListByHand", func(t *testing.T) { sameList(t, m, filepath.Join(dir, base+".cdx.json")) })
	t.Run("Image", func(t *testing.T) { loaded(t, filepath.Join(dir, base+"_image.tar")) })
	t.Run("Container", func(t *testing.T) { contained(t, filepath.Join(dir, base+"_image.tar")) })
}

// development has the go command find everything in the tree itself, as those do
// who work on it after the versions were set.
func development(t *testing.T, m *market) {
	for dir, work := range map[string]string{"cmd/leader": m.tree.in("go.work"), "test/compare": "off"} {
		env := append(os.Environ(), "GOWORK="+work, "GOFLAGS=-mod=readonly")
		if _, err := output(t.Context(), m.tree.in(dir), env, "go", "list", "-deps", "./..."); err != nil {
			t.Errorf("%s: %v", dir, err)
		}
	}
}

// everywhere holds the versions that were set against the files.
func everywhere(t *testing.T, m *market) {
	files, err := m.tree.filesBelow()
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, name := range files {
		data, err := os.ReadFile(m.tree.in(name))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(data)) {
			fields := strings.Fields(line)
			for i, path := range fields {
				if i+1 == len(fields) || !m.tree.isReleased(path) || fields[0] == "module" || fields[i+1] == "=>" {
					continue
				}
				found++
				if fields[i+1] != version {
					t.Errorf("%s: %s", name, line)
				}
			}
		}
	}
	if found < 30 {
		t.Errorf("%d requirements and replacements of ours", found)
	}
}

// filesBelow are the files of the tree that name versions. A copy has no git.
func (t *tree) filesBelow() (names []string, err error) {
	err = fs.WalkDir(os.DirFS(t.root), ".", func(path string, _ fs.DirEntry, err error) error {
		if base := filepath.Base(path); base == "go.mod" || base == "go.work" {
			names = append(names, path)
		}
		return err
	})
	return names, err
}

func sums(t *testing.T, dir, base string) {
	data, err := os.ReadFile(filepath.Join(dir, "checksums.txt"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for line := range strings.Lines(string(data)) {
		want, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%x", sha256.Sum256(content)); got != want {
			t.Errorf("%s has the sum %s, not %s", name, got, want)
		}
		names = append(names, name)
	}
	if want := []string{base + ".cdx.json", base + ".tar.gz", base + "_image.tar"}; !slices.Equal(names, want) {
		t.Errorf("sums of %q, want %q", names, want)
	}
}

func archive(t *testing.T, name string) {
	to := t.TempDir()
	got := unpack(t, name, to)
	want := []string{
		"LICENSE", "cli.md", "leader", "share/completions/leader.bash", "share/completions/leader.fish",
		"share/completions/leader.zsh", "share/man/man1/leader.1",
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	out, err := exec.CommandContext(t.Context(), filepath.Join(to, "leader"), "version", "-o", "json").Output()
	if err != nil {
		t.Fatal(err)
	}
	var told struct{ Version, Library string }
	if err := json.Unmarshal(out, &told); err != nil || told.Version != version || told.Library != version {
		t.Errorf("%v: the program says %s", err, out)
	}
}

// unpack unpacks a tarball, and returns its files.
func unpack(t *testing.T, name, to string) (names []string) {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var r io.Reader = bytes.NewReader(data)
	if z, err := gzip.NewReader(bytes.NewReader(data)); err == nil {
		r = z
	}
	for in := tar.NewReader(r); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		at := filepath.Join(to, filepath.FromSlash(h.Name))
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(at, 0o755)
		} else {
			names = append(names, h.Name)
			err = errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), writeFrom(at, in, h.FileInfo().Mode()))
		}
		if err == nil && h.Typeflag == tar.TypeDir {
			err = os.Chmod(at, h.FileInfo().Mode())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func writeFrom(name string, r io.Reader, mode fs.FileMode) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY, mode.Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Close())
}

// list holds the list of modules against go.mod, for some that must be there.
func list(t *testing.T, m *market, name string) {
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var l struct {
		BOMFormat, SpecVersion string
		Components             []component
	}
	if err := json.Unmarshal(data, &l); err != nil || l.BOMFormat != "CycloneDX" || l.SpecVersion != "1.6" {
		t.Fatalf("%v: %.200s", err, data)
	}
	at := map[string]component{}
	for _, c := range l.Components {
		if _, twice := at[c.Ref]; twice {
			t.Errorf("%s is there twice", c.Ref)
		}
		at[c.Name] = c
	}
	for _, path := range []string{m.tree.path, m.tree.path + "/store/redisstore"} {
		if at[path].Version != version {
			t.Errorf("%s: %+v", path, at[path])
		}
	}
	nats := at["github.com/nats-io/nats.go"]
	if !strings.HasPrefix(nats.PURL, "pkg:golang/github.com/nats-io/nats.go@v1.") || len(nats.Hashes) != 1 || len(nats.Hashes[0].Content) != 64 {
		t.Errorf("%+v", nats)
	}
}

// sameList has the list made by itself, as goreleaser has it made.
func sameList(t *testing.T, m *market, name string) {
	program, err := m.install(t.Context(), "linux/"+runtime.GOARCH, "-ldflags=-s -w")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "list.json")
	var out, stderr bytes.Buffer
	if code := run(t.Context(), []string{"list", program, file}, nil, &out, &stderr); code != 0 {
		t.Fatalf("exit status %d: %s", code, &stderr)
	}
	want, err := os.ReadFile(name)
	got, err2 := os.ReadFile(file)
	if err := errors.Join(err, err2); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%v: the list differs: %s", err, got)
	}
	if code := run(t.Context(), []string{"list", name, file}, nil, &out, &stderr); code != 1 || stderr.Len() == 0 {
		t.Errorf("of a file that is no program: exit status %d", code)
	}
}

func TestPlan(t *testing.T) {
	var out, stderr bytes.Buffer
	if code := run(t.Context(), []string{"-root", here, "-version", "v0.1.0", "plan"}, nil, &out, &stderr); code != 0 {
		t.Fatalf("exit status %d: %s", code, &stderr)
	}
	tags := strings.Fields(out.String())
	if tags[0] != "v0.1.0" || slices.Index(tags, "cmd/leader/v0.1.0") < slices.Index(tags, "store/redisstore/v0.1.0") {
		t.Errorf("%q", tags)
	}
	for _, tag := range tags {
		if strings.HasPrefix(tag, "test/") || strings.HasPrefix(tag, "examples/") {
			t.Errorf("%s would be tagged", tag)
		}
	}
}

func TestWrongCommandLinesAreRefused(t *testing.T) {
	for _, args := range [][]string{
		{}, {"publish"}, {"plan", "twice"}, {"list"}, {"list", "program"}, {"-version", "0.1.0", "plan"}, {"-version", "v0.1", "plan"}, {"-version", "v2.0.0", "plan"},
		{"-version", "v0.0.0-20260102030405-abcdefabcdef", "plan"}, {"-fast", "plan"},
	} {
		var out, stderr bytes.Buffer
		if code := run(t.Context(), append([]string{"-root", here}, args...), nil, &out, &stderr); code != 2 || stderr.Len() == 0 {
			t.Errorf("%q: exit status %d", args, code)
		}
	}
}

func TestAReleasedModuleRequiresNoneThatIsNot(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"go.work": "go 1.26.0\nuse (\n\t.\n\t./a\n\t./test\n)\n", "go.mod": "module x.org/m\n\ngo 1.26.0\n",
		"a/go.mod":    "module x.org/m/a\n\ngo 1.26.0\n\nrequire x.org/m/test v0.0.0\n",
		"test/go.mod": "module x.org/m/test\n\ngo 1.26.0\n",
	} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755), os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := readTree(dir); err == nil || !strings.Contains(err.Error(), "x.org/m/a is released, and requires x.org/m/test") {
		t.Errorf("%v", err)
	}
}
