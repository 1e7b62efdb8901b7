package main

import (
	"archive/zip"
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

const (
	rootModule = "github.com/seed-ff2cb582/leader"
	released   = "v0.0.1" // of the command; the modules that it requires are at v0.0.0
)

// TestGoInstallBuildsWhatAProxyServes serves the modules of the working tree as a module proxy does, and installs the
// command as a user does: in no workspace, which is where a replace or a file outside of the module would show.
func TestGoInstallBuildsWhatAProxyServes(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("compiles all dependencies")
	}
	proxy, bin, cache := t.TempDir(), t.TempDir(), t.TempDir()
	serveModule(t, proxy, "cmd/leader", released)
	for _, dir := range siblings(t) {
		serveModule(t, proxy, dir, "v0.0.0")
	}
	downloaded := goEnv(t, "GOMODCACHE") + "/cache/download"
	cmd := exec.CommandContext(t.Context(), "go", "install", rootModule+"/cmd/leader@"+released)
	cmd.Dir = bin // outside of the workspace, and of any module
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOBIN="+bin, "GOMODCACHE="+cache, "GOSUMDB=off", "GONOPROXY=none",
		"GOFLAGS=-trimpath -modcacherw", "GOPROXY=file://"+proxy+",file://"+downloaded+","+goEnv(t, "GOPROXY"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd = exec.CommandContext(t.Context(), filepath.Join(bin, "leader"), "version", "-o", "json")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var told struct{ Version, Library string }
	if err := json.Unmarshal(out, &told); err != nil || told.Version != released || told.Library != "v0.0.0" {
		t.Errorf("%v: the installed program says %s", err, out)
	}
}

// siblings are the directories of the project's modules that the command
// requires.
func siblings(t *testing.T) (dirs []string) {
	t.Helper()
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	required := regexp.MustCompile(`(?m)^\s*` + regexp.QuoteMeta(rootModule) + `(?:/(\S+))? v0\.0\.0`)
	for _, m := range required.FindAllStringSubmatch(string(mod), -1) {
		dirs = append(dirs, cmp.Or(m[1], "."))
	}
	return dirs
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.ToSlash(strings.TrimSpace(string(out)))
}

// serveModule puts a module of the working tree into a proxy's directory.
func serveModule(t *testing.T, proxy, dir, version string) {
	t.Helper()
	module := strings.TrimSuffix(rootModule+"/"+dir, "/.")
	source := filepath.Join("..", "..", dir)
	mod, err := os.ReadFile(filepath.Join(source, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	if regexp.MustCompile(`(?m)^\s*replace\b`).Match(mod) {
		t.Errorf("%s: go install refuses a module that replaces others", module)
	}
	at := filepath.Join(proxy, filepath.FromSlash(module), "@v")
	if err := os.MkdirAll(at, 0o755); err != nil {
		t.Fatal(err)
	}
	info, err := json.Marshal(map[string]any{"Version": version, "Time": time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"list": []byte(version + "\n"), version + ".info": info, version + ".mod": mod} {
		if err := os.WriteFile(filepath.Join(at, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := pack(source, filepath.Join(at, version+".zip"), module+"@"+version+"/"); err != nil {
		t.Fatal(err)
	}
}

// pack zips a module: all regular files, without hidden directories and modules within.
func pack(source, file, prefix string) (err error) {
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	w := zip.NewWriter(out)
	tree := os.DirFS(source)
	err = fs.WalkDir(tree, ".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			if path != "." && (strings.HasPrefix(entry.Name(), ".") || hasModule(tree, path)) {
				return fs.SkipDir
			}
			return nil
		case !entry.Type().IsRegular() || !wanted(entry.Name()):
			return nil
		}
		content, err := fs.ReadFile(tree, path)
		if err != nil {
			return err
		}
		f, err := w.Create(prefix + path)
		if err != nil {
			return err
		}
		_, err = f.Write(content)
		return err
	})
	return errors.Join(err, w.Close())
}

func hasModule(tree fs.FS, dir string) bool {
	_, err := fs.Stat(tree, dir+"/go.mod")
	return err == nil
}

// wanted leaves out what builds leave behind, which may be large.
func wanted(name string) bool {
	switch filepath.Ext(name) {
	case ".exe", ".test", ".out", ".prof":
		return false
	}
	return name != "leader" // the program, built in its directory
}
