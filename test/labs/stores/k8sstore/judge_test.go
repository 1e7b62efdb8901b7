package k8sstore_test

import (
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/seed-ff2cb582/leader/kubernetes/k8sstore"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/storetest"
	"github.com/seed-ff2cb582/leader/store/storetest/judge"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/labs/stores/kubelab"
)

var caps = storetest.Caps{
	NoVisible: "a Lease stays when its holder leaves: kubectl shows no HOLDER then, for which there is a separate test",
	MaxValue:  k8sstore.MaxValue,
}

// registers are the registers of a new namespace. Its clients have the
// configurations in turn.
func registers(tb testing.TB, srv *kubelab.Server, interrupt func() error, configs ...*rest.Config) judge.Registers {
	tb.Helper()
	var opened atomic.Int64
	opts := k8sstore.Options{Namespace: newNamespace(srv)}
	admin := newKubectl(tb, srv, opts.Namespace)
	name := open(tb, configs[0], opts).LeaseName
	remove := func(key string) error { return admin.delete(name(key)) }
	return judge.Registers{
		Harness: storetest.Harness{
			Open:      func(tb testing.TB) store.Store { return open(tb, configs[int(opened.Add(1))%len(configs)], opts) },
			Delete:    remove,
			Purge:     remove,
			Put:       func(key string, value []byte) error { return admin.put(name(key), value) },
			Interrupt: interrupt,
		},
		At: func(tb testing.TB, addr string) store.Store {
			return open(tb, kubelab.Through(srv.Admin(), addr), opts)
		},
	}
}

// on is a server as a subject. The contract is judged with several of them.
func on(srv *kubelab.Server) judge.Subject {
	node := srv.Etcd.Nodes[0]
	return judge.Subject{
		Registers: func(tb testing.TB) judge.Registers { return registers(tb, srv, nil, srv.Admin()) },
		Addrs:     []string{srv.Addr},
		Processes: []judge.Process{
			judge.ProcessOf("the API server", srv),
			{Name: "etcd", Kill: srv.Etcd.Kill, Run: srv.Etcd.Run, Freeze: node.Freeze, Thaw: node.Thaw},
		},
	}
}

func TestStore(t *testing.T) {
	t.Parallel()
	judge.Run(t, func(tb testing.TB) judge.Subject { return on(kubelab.Start(tb)) }, trial.Flags(judge.Options{
		Cases: []judge.Case{judge.Frozen, judge.Kept, judge.Faults, judge.Outlived}, Lease: 3 * time.Second,
	}))
}

// unharmed is what does the server no harm.
func unharmed(t *testing.T, srv *kubelab.Server) {
	judge.Run(t, func(testing.TB) judge.Subject { return on(srv) }, trial.Flags(judge.Options{
		Cases: []judge.Case{judge.Elections, judge.Histories, judge.LostAnswers, judge.Unsent, judge.Invalid, judge.Closed}, Caps: caps,
	}))
}

// Tests that do not disturb each other share one server, at the same time: it
// takes longer to start than most of the tests.
func TestOnOneServer(t *testing.T) {
	t.Parallel()
	srv := kubelab.Start(t)
	for name, test := range map[string]func(*testing.T, *kubelab.Server){
		"Judged":         unharmed,
		"Deletion":       deletion,
		"Retries":        retries,
		"Repetition":     repetition,
		"Unreachable":    unreachable,
		"Explained":      explained,
		"Forgotten":      forgotten,
		"Rights":         rights,
		"WellFormed":     wellFormed,
		"ForeignClocks":  foreignClocks,
		"Cleared":        cleared,
		"Prefixes":       prefixes,
		"Clientset":      clientset,
		"ComeAndGo":      comeAndGo,
		"Abandoned":      abandoned,
		"SeveralServers": severalServers,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, srv)
		})
	}
}
