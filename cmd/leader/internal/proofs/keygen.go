// Package proofs holds the commands that make and judge proofs of leadership
// without a server.
package proofs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/proof"
)

// KeygenCommand makes a key and adds its public half to a set.
type KeygenCommand struct {
	Key  string `required:"" placeholder:"FILE" help:"The private key: made if there is no such file, read if there is."`
	Keys string `required:"" placeholder:"FILE" help:"The group's public keys, a JWK set: made if there is no such file, added to if there is."`
}

// Help describes the command.
func (KeygenCommand) Help() string {
	return `Makes an Ed25519 key that signs the proofs of a group, and adds its public half to the group's key set. It prints the key's id, by which
proofs name it. A key file that exists is left as it is: a PEM block PRIVATE KEY, as openssl genpkey -algorithm ed25519 writes it, or the
seed of an nkey (nk -gen account; not the seed of a NATS user, which signs whatever a server asks for).

The private key goes to the group's candidates, for their owner alone to read; the set goes to everyone that verifies. One key for one group.
To replace a key: add the new one to the set, give that to all verifiers, have the candidates sign with the new key, and, when the last proof
of the old key has expired, take that out of the set.

Exit status: 0; 1 if a file cannot be read or written, or holds something else; 2 wrong usage.

Examples:
  leader token keygen --key reports.pem --keys reports.jwks
  leader token keygen --key new.pem --keys reports.jwks`
}

// Validate checks what the parser cannot: the set would replace the key.
func (c KeygenCommand) Validate() error {
	if c.Key != "" && filepath.Clean(c.Key) == filepath.Clean(c.Keys) {
		return fmt.Errorf("--keys %s: must not be the file of --key", c.Keys)
	}
	return nil
}

// Run makes the key.
func (c KeygenCommand) Run(std app.Streams) error {
	set, err := proof.ReadKeySet(c.Keys)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	key, made, err := c.key()
	if err != nil {
		return err
	}
	if c.oneFile() {
		err = fmt.Errorf("%w: --keys %s: is the file of --key by another name", app.ErrUsage, c.Keys)
		if made {
			err = errors.Join(err, os.Remove(c.Key))
		}
		return err
	}
	if set, err = set.With(key.Public()); err != nil {
		return err
	}
	text, err := json.MarshalIndent(set, "", "  ")
	if err != nil {
		return err
	}
	if err := WriteFile(c.Keys, append(text, '\n'), 0o644); err != nil {
		return err
	}
	_, err = fmt.Fprintln(std.Out, key.ID())
	return err
}

// oneFile reports whether both flags name one file, as links or a
// case-insensitive file system may cause. This is known only if the file
// exists.
func (c KeygenCommand) oneFile() bool {
	key, err := os.Stat(c.Key)
	keys, other := os.Stat(c.Keys)
	return err == nil && other == nil && os.SameFile(key, keys)
}

// key reads the key, or makes it.
func (c KeygenCommand) key() (key proof.Key, made bool, err error) {
	key, err = proof.ReadKey(c.Key)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, false, err
	}
	if key, err = proof.GenerateKey(); err != nil {
		return key, false, err
	}
	text, err := key.MarshalPEM()
	if err != nil {
		return key, false, err
	}
	// Never over a key that another made meanwhile.
	f, err := os.OpenFile(c.Key, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return key, false, err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err != nil {
		// Otherwise a part of a key would block the next try.
		return key, false, errors.Join(err, os.Remove(c.Key))
	}
	return key, true, nil
}

// WriteFile replaces a file as a whole: what reads it sees the old text or the
// new one. Of a link it replaces the file behind it.
func WriteFile(path string, text []byte, mode fs.FileMode) error {
	if file, err := filepath.EvalSymlinks(path); err == nil {
		path = file
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Chmod(mode), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
