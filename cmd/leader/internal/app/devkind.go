package app

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/devserver"
	"github.com/seed-ff2cb582/leader/store"
)

// envStore is the variable that names a store.
const envStore = "LEADER_STORE"

// devKind returns the kind of server that --dev is to start, by the scheme of
// its store's URL, and nothing for NATS or without --dev. What the environment
// names is not used then, as NATS_URL is not.
func (t Target) devKind() (string, error) {
	if !t.Dev || t.Store == "" || t.Store == t.Env.Get(envStore) {
		return "", nil
	}
	u, err := url.Parse(t.Store)
	if err != nil || u.Host != "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Opaque != "" || u.Fragment != "" {
		return "", errors.New("--dev: brings its own server, and --store names another: name its kind alone, such as redis://")
	}
	kind := strings.ToLower(u.Scheme)
	switch {
	case kind == "nats":
		return "", nil
	case kind == "mongodb":
		return "", errors.New("--dev: no server is started for mongodb://: a replica set has to be initiated there, which could be tried on none." +
			" Start mongod --replSet rs0, run rs.initiate() in mongosh, and name it: --store mongodb://127.0.0.1/dev")
	case !slices.Contains(devserver.Kinds(), kind):
		return "", fmt.Errorf("--dev: no server of the kind %q is started: those of %s are, and that of NATS", t.Store, strings.Join(devserver.Kinds(), ", "))
	}
	return kind, nil
}

// openDev starts a server of another kind than NATS, with sample elections, and
// opens the store there.
func (t Target) openDev(kind, command string, live bool) (_ *Session, err error) {
	srv, err := devserver.StartKind(context.Background(), kind)
	if err != nil {
		return nil, fmt.Errorf("--dev: %w", err)
	}
	closers := []func(){func() { _ = srv.Close() }}
	defer func() {
		if err != nil {
			for _, f := range slices.Backward(closers) {
				f()
			}
		}
	}()
	t.Store = srv.URL
	beside, err := t.openServing(srv, "sample elections")
	if err != nil {
		return nil, err
	}
	closers = append(closers, beside.Close)
	elections, err := startSamplesElsewhere(beside.Elsewhere())
	if err != nil {
		return nil, err
	}
	closers = append(closers, elections.stop)
	if live {
		elections.keepChanging()
	}
	s, err := t.openServing(srv, command)
	if err != nil {
		return nil, err
	}
	s.Fresh, s.server, s.closers = true, srv, append(closers, s.closers...)
	return s, nil
}

// serverPatience is how long a server may take to serve. An API server takes
// some seconds, and more on a busy machine.
const serverPatience = time.Minute

// openServing opens the store of a server that may not serve yet.
func (t Target) openServing(srv *devserver.Process, command string) (*Session, error) {
	limit := time.After(serverPatience)
	for {
		s, err := t.openElsewhere(command)
		if err == nil {
			if err = s.answers(); err == nil {
				return s, nil
			}
			s.Close()
		}
		select {
		case <-srv.Exited:
			return nil, fmt.Errorf("--dev: the server has ended: %s", srv.Said())
		case <-limit:
			return nil, fmt.Errorf("--dev: the server does not serve: %w", err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// answers reports why the store's servers do not answer.
func (s *Session) answers() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if c, ok := s.elsewhere.(store.Checker); ok {
		_, err := c.Check(ctx, store.CheckRequest{TTL: time.Second})
		return err
	}
	_, err := s.elsewhere.Get(ctx, "dev")
	return err
}
