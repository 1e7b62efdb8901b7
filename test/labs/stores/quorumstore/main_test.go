// Package quorumstore_test judges quorums of different systems on real servers:
// NATS, etcd and PostgreSQL, and two NATS servers with S3, which is polled.
package quorumstore_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/seed-ff2cb582/leader/etcd/etcdstore"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/store/pgstore"
	"github.com/seed-ff2cb582/leader/store/quorumstore"
	"github.com/seed-ff2cb582/leader/store/s3store"
	"github.com/seed-ff2cb582/leader/store/storetest/judge"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/labs/databases"
	"github.com/seed-ff2cb582/leader/test/labs/stores/etcdlab"
	"github.com/seed-ff2cb582/leader/test/labs/stores/objectlab"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

var figures = flag.Bool("figures", false, "measure")

// lab keeps what the PostgreSQL servers of these tests begin with.
var lab databases.Lab

func TestMain(m *testing.M) {
	if natslab.Serving() {
		os.Exit(0)
	}
	trial.Main(m, lab.Close)
}

// A member is a server that keeps one copy of each register.
type member struct {
	url     func(space string) string // of registers that no other test uses
	process judge.Process
}

// ofNATS starts a server that syncs each write.
func ofNATS(tb testing.TB) member {
	tb.Helper()
	srv := natslab.StartProcesses(tb, 1, fmt.Sprintf("jetstream { store_dir: %q, sync_interval: always }", tb.TempDir()))
	node := srv.Nodes[0]
	return member{
		url: func(space string) string { return node.URL() + "/" + space + "?create=true" },
		process: judge.Process{
			Name: "NATS at " + node.Addr(), Kill: node.Kill, Run: func() { node.Run(); srv.AwaitReady() }, Spare: true,
		},
	}
}

func ofEtcd(tb testing.TB) member {
	tb.Helper()
	srv := etcdlab.Start(tb, 1)
	node := srv.Nodes[0]
	return member{
		url:     func(space string) string { return "etcd://" + node.Addr + "/" + space + "/" },
		process: judge.Process{Name: "etcd", Kill: srv.Kill, Run: srv.Run, Freeze: node.Freeze, Thaw: node.Thaw, Spare: true},
	}
}

func ofPostgreSQL(tb testing.TB) member {
	tb.Helper()
	srv := lab.OwnPostgreSQL(tb, "max_connections=400")
	return member{
		url:     func(space string) string { return srv.DSN("lab") + "&create=true&table=" + space },
		process: spare("PostgreSQL", srv),
	}
}

func ofS3(tb testing.TB) member {
	tb.Helper()
	srv := objectlab.StartS3(tb)
	return member{
		url:     func(space string) string { return srv.S3URL("lab/" + space) },
		process: spare("S3", srv),
	}
}

// spare returns what a test can do to a server without which the others go on.
func spare(name string, srv judge.Server) judge.Process {
	p := judge.ProcessOf(name, srv)
	p.Spare = true
	return p
}

func mixed(tb testing.TB) []member {
	tb.Helper()
	return []member{ofNATS(tb), ofEtcd(tb), ofPostgreSQL(tb)}
}

func polled(tb testing.TB) []member {
	tb.Helper()
	return []member{ofNATS(tb), ofNATS(tb), ofS3(tb)}
}

// spaces makes the names of registers unique.
var spaces atomic.Int64

// place returns the URL of registers that no other test uses.
func place(members []member) string {
	space := fmt.Sprint("q", spaces.Add(1))
	escape := strings.NewReplacer("%", "%25", "&", "%26")
	var parts []string
	for i, m := range members {
		parts = append(parts, "m="+"abc"[i:i+1]+"="+escape.Replace(m.url(space)))
	}
	return "quorum://?" + strings.Join(parts, "&")
}

// open opens a store with separate connections.
func open(tb testing.TB, url string) store.Opened {
	tb.Helper()
	s, err := store.Open(trial.Within(tb), url, quorumstore.Driver(natsstore.Driver(), etcdstore.Driver(), pgstore.Driver(), s3store.Driver()))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = s.Close() })
	return s
}

// made opens a store, and makes the members' buckets and tables.
func made(tb testing.TB, url string) store.Opened {
	tb.Helper()
	s := open(tb, url)
	if r, err := trial.Check(tb, s.(store.Checker)); err != nil || r.Forgetful || r.Expires { //nolint:errcheck // it is one
		tb.Fatalf("%+v, %v", r, err)
	}
	return s
}
