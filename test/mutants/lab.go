package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// limit is how long a mutant may live, without the time of building. On two
// quiet cores the slowest that the simulation catches took 48 s.
const limit = 3 * time.Minute

// A lab builds and runs tests of the repository, with and without mutants.
type lab struct {
	root string // of the repository
	dir  string // for what is built
}

// mutate returns the files as the edits make them, by their names from root.
func mutate(root string, edits []edit) (map[string]string, error) {
	files := map[string]string{}
	for _, e := range edits {
		text, ok := files[e.file]
		if !ok {
			var err error
			if text, err = read(root, e.file); err != nil {
				return nil, err
			}
		}
		if n := strings.Count(text, e.old); n != 1 {
			return nil, fmt.Errorf("%s holds %d times, not once: %q", e.file, n, e.old)
		}
		files[e.file] = strings.Replace(text, e.old, e.new, 1)
	}
	return files, nil
}

func read(root, file string) (string, error) {
	b, err := os.ReadFile(filepath.Join(root, file))
	return string(b), err
}

// overlay writes the edits where the go command finds them in the place of the
// files.
func (l lab) overlay(edits []edit) (string, error) {
	files, err := mutate(l.root, edits)
	if err != nil {
		return "", err
	}
	replace := map[string]string{}
	for name, text := range files {
		copied := filepath.Join(l.dir, strings.ReplaceAll(name, "/", "_"))
		if err := os.WriteFile(copied, []byte(text), 0o600); err != nil {
			return "", err
		}
		replace[filepath.Join(l.root, name)] = copied
	}
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	name := filepath.Join(l.dir, "overlay.json")
	return name, os.WriteFile(name, b, 0o600)
}

// build builds the tests of a package.
func (l lab) build(ctx context.Context, pkg string, edits []edit) (string, error) {
	binary := filepath.Join(l.dir, strings.NewReplacer("/", "_", ".", "_").Replace(pkg)+".test")
	args := []string{"test", "-c", "-vet=off", "-o", binary}
	if len(edits) > 0 {
		overlay, err := l.overlay(edits)
		if err != nil {
			return "", err
		}
		args = append(args, "-overlay", overlay)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, "./"+pkg)...)
	cmd.Dir = l.root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the tests of %s: %w\n%s", pkg, err, out)
	}
	return binary, nil
}

// A verdict is how tests ended.
type verdict struct {
	passed bool
	ran    int // tests that ended
	by     string
	took   time.Duration
	output string
}

// run runs the tests of a check.
func (l lab) run(ctx context.Context, binary string, c check) (verdict, error) {
	args := append([]string{"-test.v", "-test.failfast", "-test.timeout=" + limit.String(), "-test.run=" + c.run}, strings.Fields(c.args)...)
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Dir = filepath.Join(l.root, c.pkg)
	begun := time.Now()
	out, err := cmd.CombinedOutput()
	v := verdict{took: time.Since(begun), output: string(out)}
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return v, fmt.Errorf("running the tests of %s: %w", c.pkg, err)
	}
	v.passed = err == nil
	v.ran = len(ended.FindAllString(v.output, -1))
	if !v.passed {
		v.by = catcher(v.output)
	}
	return v, ctx.Err()
}

var (
	ended     = regexp.MustCompile(`(?m)^--- (PASS|FAIL): `)
	failed    = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)
	begun     = regexp.MustCompile(`(?m)^=== RUN +([^/\s]+)$`)
	invariant = regexp.MustCompile(`(?m)\b(G[1-8]|rule 2|fitness|control|state|stop|spin): `)
)

// catcher finds out which test failed and, in a simulation, by which judge.
func catcher(output string) string {
	by := ""
	if m := failed.FindStringSubmatch(output); m != nil {
		by = m[1]
	} else if all := begun.FindAllStringSubmatch(output, -1); all != nil {
		by = all[len(all)-1][1] + ", crashed"
	}
	if m := invariant.FindStringSubmatch(output); m != nil && strings.HasPrefix(by, "TestSimulation") {
		by += ", " + m[1]
	}
	return by
}

// findRoot finds the repository that the working directory is in.
func findRoot() (string, error) {
	out, err := exec.Command("go", "env", "GOWORK").Output()
	if err != nil {
		return "", err
	}
	work := strings.TrimSpace(string(out))
	if work == "" || work == "off" {
		return "", errors.New("to be run inside the repository, with its workspace")
	}
	return filepath.Dir(work), nil
}
