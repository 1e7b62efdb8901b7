//go:build unix

package process

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// BecomesAnother reports how a program would become another user, which this
// one may not signal, and is empty if it would not. It looks only at the
// program's file: later child programs are not known yet. It looks at the names
// as well as the mode, since these tools may have the right by a file
// capability instead.
func BecomesAnother(path string) string {
	if MaySignalAll() {
		return ""
	}
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		target = path
	}
	names := []string{"sudo", "su", "doas", "pkexec"}
	for _, name := range []string{filepath.Base(path), filepath.Base(target)} {
		if slices.Contains(names, name) {
			return name + " starts programs as another user"
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode()&fs.ModeSetuid == 0 {
		return ""
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() {
		return fmt.Sprintf("%s is setuid, and may become uid %d", path, st.Uid)
	}
	return ""
}

// Refusal explains why a program that becomes another user is not run, and the
// remedy. why is why it gets no cgroup.
func Refusal(becomes string, why error) error {
	return fmt.Errorf("%s, and uid %d may not signal that one's processes: they could not be ended when the term is over. "+
		"Give leader run the right to (sudo leader run … -- PROGRAM, without sudo inside; for another user than root: "+
		"sudo leader run … -- setpriv --reuid=USER --regid=GROUP --init-groups PROGRAM), "+
		"or a cgroup that it may kill (--cgroup; it has none: %w), or go on all the same (--allow-setuid)",
		becomes, os.Geteuid(), why)
}
