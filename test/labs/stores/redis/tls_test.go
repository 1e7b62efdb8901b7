package redis_test

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/redisstore"
	"github.com/seed-ff2cb582/leader/store/storetest"
	"github.com/seed-ff2cb582/leader/test/internal/certificates"
	"github.com/seed-ff2cb582/leader/test/internal/ports"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/labs/databases"
)

// A secured server takes clients by TLS that show a certificate of its
// authority. The lab itself speaks to it on its other port.
type secured struct {
	*databases.Redis
	addr  string // where it speaks TLS
	files string // the directory of the certificates
}

func startSecured(t *testing.T) secured {
	t.Helper()
	files, port := certificates.Set(t), strconv.Itoa(ports.Free(t, 1)[0])
	file := func(name string) string { return filepath.Join(files, name) }
	srv := databases.StartRedis(t, "--tls-port", port, "--tls-auth-clients", "yes",
		"--tls-cert-file", file("server.pem"), "--tls-key-file", file("server.key"), "--tls-ca-cert-file", file("ca.pem"))
	return secured{srv, "127.0.0.1:" + port, files}
}

// url is the URL of a store there, with the files of a directory.
func (s secured) url(files string, names ...string) string {
	query := url.Values{}
	for _, name := range names {
		extension := ".pem"
		if name == "key" {
			extension = ".key"
		}
		base := map[string]string{"ca": "ca", "cert": "client", "key": "client"}[name]
		query.Set(name, filepath.Join(files, base+extension))
	}
	return "rediss://" + s.addr + "?" + query.Encode()
}

func TestConformanceOverTLS(t *testing.T) {
	t.Parallel()
	srv := startSecured(t)
	var names atomic.Int64
	storetest.Run(t, func(testing.TB) storetest.Harness {
		prefix := fmt.Sprintf("conformance%d:", names.Add(1))
		return storetest.Harness{
			Open: func(t testing.TB) store.Store {
				st, err := store.Open(trial.Within(t), srv.url(srv.files, "ca", "cert", "key")+"&prefix="+prefix, redisstore.Driver())
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = st.Close() })
				if paced, ok := st.(*redisstore.Store); ok {
					paced.Pace(200 * time.Millisecond) // a foreign deletion causes no notification
				}
				return st
			},
			Delete:    func(key string) error { _, err := srv.Say("DEL", prefix+key); return err },
			Put:       func(key string, value []byte) error { _, err := srv.Say("SET", prefix+key, string(value)); return err },
			Purge:     func(key string) error { _, err := srv.Say("UNLINK", prefix+key); return err },
			Interrupt: func() error { _, err := srv.Say("CLIENT", "KILL", "LADDR", srv.addr); return err },
		}
	}, storetest.Caps{
		MaxValue:  redisstore.MaxValue,
		NoVisible: "Redis has no deletion that keeps a value: the record's first line marks it",
	})
}

// No record gets to a server that cannot prove its identity, nor to a server to
// which the client cannot prove its own, and the error names which of the two
// failed.
func TestTLSProvesBothSides(t *testing.T) {
	t.Parallel()
	srv := startSecured(t)
	strange := certificates.Set(t) // of another authority
	for name, c := range map[string]struct {
		url  string
		want error
		says string
	}{
		"the system's authorities": {srv.url(srv.files, "cert", "key"), store.ErrTransient, "certificate"},
		"another authority":        {srv.url(strange, "ca", "cert", "key"), store.ErrTransient, "unknown authority"},
		"no certificate":           {srv.url(srv.files, "ca"), store.ErrTransient, "tls: certificate required"},
		"one of another authority": {
			srv.url(srv.files, "ca") + "&" + url.Values{"cert": {filepath.Join(strange, "client.pem")}, "key": {filepath.Join(strange, "client.key")}}.Encode(),
			store.ErrTransient, "tls: unknown certificate authority",
		},
		"no TLS":             {"redis://" + srv.addr, store.ErrTransient, srv.addr},
		"half a certificate": {srv.url(srv.files, "ca", "cert"), store.ErrInvalid, "key"},
		"no file":            {srv.url(t.TempDir(), "ca"), store.ErrInvalid, "ca.pem"},
		"files without TLS":  {strings.Replace(srv.url(srv.files, "ca"), "rediss:", "redis:", 1), store.ErrInvalid, "rediss://"},
	} {
		t.Run(name, func(t *testing.T) {
			// The server's word comes when the client's handshake is done (TLS
			// 1.3), and the end of the connection may overtake it.
			trial.Await(t, "the error contains "+c.says, func() bool {
				st, err := store.Open(trial.Within(t), c.url, redisstore.Driver())
				if err == nil {
					_ = st.Close()
				}
				if !errors.Is(err, c.want) {
					t.Fatalf("%v; want %v", err, c.want)
				}
				said := strings.Contains(err.Error(), c.says)
				if !said {
					t.Log(err)
				}
				return said
			})
		})
	}
	if n := srv.Must("DBSIZE"); n != "0" {
		t.Errorf("%s keys", n)
	}
}
