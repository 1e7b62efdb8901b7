//go:build unix

package devserver

import (
	"fmt"
	"os"
	osuser "os/user"
	"strconv"
	"syscall"
)

// A user is the one that a server runs as.
type user struct{ uid, gid int }

// unprivileged returns the user nobody if this process is root's, or nil.
// PostgreSQL and MariaDB refuse root, which is who tries things out in a
// container.
func unprivileged() (*user, error) {
	if os.Geteuid() != 0 {
		return nil, nil //nolint:nilnil // the user stays
	}
	nobody, err := osuser.Lookup("nobody")
	if err != nil {
		return nil, fmt.Errorf("the server refuses to run as root: %w", err)
	}
	uid, err := strconv.Atoi(nobody.Uid)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.Atoi(nobody.Gid)
	if err != nil {
		return nil, err
	}
	return &user{uid, gid}, nil
}

// credential is the user for the system, nil for the user of this process.
func (u *user) credential() *syscall.Credential {
	if u == nil {
		return nil
	}
	return &syscall.Credential{Uid: uint32(u.uid), Gid: uint32(u.gid)}
}
