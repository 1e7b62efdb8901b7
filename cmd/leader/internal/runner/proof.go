//go:build unix

package runner

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/proofs"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/tempdir"
	"github.com/seed-ff2cb582/leader/proof"
)

// proofKey reads the key of --proof-key, if there is one. A key that cannot be
// read is a wrong command line, and not a reason to start without proofs: the
// program would lead, and nobody would believe it.
func (c Command) proofKey() (proof.Key, error) {
	if c.ProofKey == "" {
		return proof.Key{}, nil
	}
	key, err := proof.ReadKey(c.ProofKey)
	if err != nil {
		return key, fmt.Errorf("%w: --proof-key: %w", app.ErrUsage, err)
	}
	return key, nil
}

// prove keeps a file with a proof of the term of ctx until remove is called. It
// returns when the file has the first proof. The program finds it from its
// first step on then.
//
// remove waits for the goroutine that writes, since a proof that was written
// after the directory had gone would stay.
func (r *runner) prove(ctx context.Context) (file string, remove func(), err error) {
	at := r.at.Load()
	signer, err := proof.NewSigner(at.e, at.group, r.cfg.InstanceID, r.proofKey, proof.SignerOptions{})
	if err != nil {
		return "", nil, err
	}
	// A directory with mode 0700: a proof is worth the leadership to any
	// reader, and the rename that replaces one needs a private directory. If
	// this process is killed, the next one removes it.
	dir, err := tempdir.New("leader-proof-")
	if err != nil {
		return "", nil, err
	}
	file = filepath.Join(dir.Path, "proof")
	ctx, cancel := context.WithCancel(ctx)
	written, ended := make(chan struct{}), make(chan struct{})
	var why error // it ended
	go func() {
		defer close(ended)
		why = signer.Rotate(ctx, r.c.ProofFor, r.proofWriter(file, written))
	}()
	remove = func() {
		cancel()
		<-ended
		_ = dir.Remove() // what cannot be removed now, the next one tries to remove
	}
	select {
	case <-written:
		return file, remove, nil
	case <-ended:
		remove()
		return "", nil, why
	}
}

// proofWriter returns a function that writes each proof. The first must be
// written, and closes the channel. A later proof that cannot be written is
// tried again with the next: until then verifiers refuse the old one.
func (r *runner) proofWriter(file string, written chan struct{}) func(string, time.Time) error {
	begun := false
	return func(text string, _ time.Time) error {
		err := proofs.WriteFile(file, []byte(text+"\n"), 0o600)
		switch {
		case begun && err != nil:
			r.say("the proof was not written: %v", err)
			return nil
		case err == nil && !begun:
			begun = true
			close(written)
		}
		return err
	}
}
