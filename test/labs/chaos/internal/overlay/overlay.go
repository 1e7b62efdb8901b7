// Package overlay builds programs from sources, some of which are changed for
// that build alone: an overlay names the replacements to the compiler, and no
// file is touched.
//
// A text that is to be replaced must occur in its file exactly once. Any other
// number is an error, so that a change does not quietly become none when the
// file moves on.
package overlay

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A Change replaces Old by New in a file, whose path is relative to a root.
type Change struct{ File, Old, New string }

// Write writes the changed copies of files below root into dir, and returns
// which path of an original is replaced by which of a copy.
func Write(root, dir string, changes []Change) (map[string]string, error) {
	changed := map[string][]byte{}
	for _, c := range changes {
		path := filepath.Join(root, c.File)
		source, ok := changed[path]
		if !ok {
			var err error
			if source, err = os.ReadFile(path); err != nil {
				return nil, err
			}
		}
		if n := bytes.Count(source, []byte(c.Old)); n != 1 {
			return nil, fmt.Errorf("overlay: %s holds the text to be changed %d times, not once: %q", c.File, n, c.Old)
		}
		changed[path] = bytes.Replace(source, []byte(c.Old), []byte(c.New), 1)
	}
	replace := map[string]string{}
	for path, source := range changed {
		copied, err := Copy(dir, filepath.Base(path), source)
		if err != nil {
			return nil, err
		}
		replace[path] = copied
	}
	return replace, nil
}

// Copy writes a source into a new directory below dir, and returns its path.
// Files of one name from different packages do not meet there.
func Copy(dir, name string, source []byte) (string, error) {
	own, err := os.MkdirTemp(dir, "source-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(own, name)
	return path, os.WriteFile(path, source, 0o600)
}

// Build builds the program of an import path with files replaced, in dir, and
// returns the path of the binary. It needs the go command, and to be called
// within the workspace.
func Build(ctx context.Context, dir, program string, replace ...map[string]string) (binary string, err error) {
	all := map[string]string{}
	for _, r := range replace {
		maps.Copy(all, r)
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": all})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(path, overlay, 0o600); err != nil {
		return "", err
	}
	binary = filepath.Join(dir, "program")
	_, err = Go(ctx, "build", "-overlay", path, "-o", binary, program)
	return binary, err
}

// Go runs the go command and returns what it printed.
func Go(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("overlay: %s: %w\n%s", strings.Join(cmd.Args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return strings.TrimSpace(stdout.String()), nil
}
