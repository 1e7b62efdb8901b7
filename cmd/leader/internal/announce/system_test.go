//go:build !natsonly

package announce

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
)

// Unread parts would have leaders announced elsewhere, or without TLS. They may
// be part of a password.
func TestToIsReadAsAWhole(t *testing.T) {
	for to, want := range map[string]string{
		"etcds://h:2379/p#secret?ca=/f": "%23",
		"consul://h:8500/db#secret":     "%23",
		"k8s:default":                   "two slashes",
		"consul:/db":                    "two slashes",
	} {
		_, err := parse(to, []string{"db"})
		if err == nil || !strings.Contains(err.Error(), "--to") || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %s", to, err, want)
		}
	}
	for _, to := range []string{"etcd://h:2379/p/", "consul://h:8500/db", "k8s://default"} {
		if _, err := parse(to, []string{"db"}); err != nil {
			t.Errorf("%s: %v", to, err)
		}
	}
}

// A client of etcd with a user logs in when it is made. Here nobody answers it.
func TestAnInterruptEndsTheLogin(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	accepted := make(chan net.Conn, 1)
	go func() {
		defer close(accepted)
		if conn, err := l.Accept(); err == nil {
			accepted <- conn
			cancel()
		}
	}()
	open, err := parse("etcd://app:secret@"+l.Addr().String(), []string{"db"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := open(ctx); !errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v; want that the context was canceled, and no timeout", err)
	}
	_ = l.Close()
	for conn := range accepted {
		_ = conn.Close()
	}
}
