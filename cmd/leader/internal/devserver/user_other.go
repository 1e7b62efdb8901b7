//go:build !unix

package devserver

// A user is the one that a server runs as.
type user struct{ uid, gid int }

// unprivileged returns nil: no server has to run as another user.
func unprivileged() (*user, error) { return nil, nil } //nolint:nilnil // the user stays
