package etcdstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/seed-ff2cb582/leader/etcd/etcdstore"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/labs/stores/etcdlab"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// as logs a client in.
func as(user string) func(*clientv3.Config) {
	return func(c *clientv3.Config) { c.Username, c.Password = user, user }
}

// grant makes a user with these rights and no others. The password is the name.
func grant(t *testing.T, admin *clientv3.Client, user string, kind clientv3.PermissionType, from, to string) {
	t.Helper()
	ctx := trial.Within(t)
	_, err := admin.RoleAdd(ctx, user)
	if err == nil && from != "" {
		_, err = admin.RoleGrantPermission(ctx, user, from, to, kind)
	}
	if err == nil {
		_, err = admin.UserAdd(ctx, user, user)
	}
	if err == nil {
		_, err = admin.UserGrantRole(ctx, user, user)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestLeastPrivilege(t *testing.T) {
	t.Parallel()
	// The cheapest of hashes: the tests are not about passwords.
	cluster := etcdlab.Start(t, 1, "--bcrypt-cost", "4")
	admin := cluster.Client(t)
	grant(t, admin, "root", clientv3.PermissionType(clientv3.PermReadWrite), "", "")
	grant(t, admin, "all", clientv3.PermissionType(clientv3.PermReadWrite), "leader/", clientv3.GetPrefixRangeEnd("leader/"))
	grant(t, admin, "one", clientv3.PermissionType(clientv3.PermReadWrite), "leader/g", "leader/g,")
	grant(t, admin, "reader", clientv3.PermissionType(clientv3.PermRead), "leader/", clientv3.GetPrefixRangeEnd("leader/"))
	grant(t, admin, "nothing", clientv3.PermissionType(clientv3.PermReadWrite), "", "")
	if _, err := admin.UserGrantRole(trial.Within(t), "root", "root"); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.AuthEnable(trial.Within(t)); err != nil {
		t.Fatal(err)
	}
	req := store.CheckRequest{TTL: time.Minute, Key: "g"}

	t.Run("ACandidateOfThePrefix", func(t *testing.T) {
		s := open(t, cluster.Client(t, as("all")), etcdstore.Options{})
		wide := req
		wide.Reads = []string{"_ctl.g"}
		r, err := s.Check(trial.Within(t), wide)
		warned(t, r, err)
		h := trial.Listen(t, s, "g")
		stop, err := s.WatchPattern(trial.Within(t), ">", func(store.Entry) {}, func(err error) {
			if err != nil {
				t.Error(err)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		rev := trial.Must(t, s, store.Write{Key: "g", Value: []byte("1")})
		h.Value("1")
		trial.Must(t, s, store.Write{Key: "g", Expected: rev, Value: []byte("2"), Tombstone: true})
		h.Value("2")
	})
	t.Run("ACandidateOfOneRegister", func(t *testing.T) {
		s := open(t, cluster.Client(t, as("one")), etcdstore.Options{})
		r, err := s.Check(trial.Within(t), req)
		warned(t, r, err)
		h := trial.Listen(t, s, "g")
		rev := trial.Get(t, s, "g").Revision
		trial.Must(t, s, store.Write{Key: "g", Expected: rev, Value: []byte("3")})
		h.Value("3")
		_, err = s.CompareAndSwap(trial.Within(t), store.Write{Key: "other"})
		trial.Outcome(t, err, store.Permanent, "permission denied", `"leader/other"`, "readwrite")
		_, err = s.Get(trial.Within(t), "other")
		trial.Outcome(t, err, store.Permanent, "permission denied")
		_, err = s.Watch(trial.Within(t), []string{"other"}, func(store.Entry) {})
		trial.Outcome(t, err, store.Permanent, "permission denied")
		wide := req
		wide.Reads = []string{"other"}
		_, err = s.Check(trial.Within(t), wide)
		trial.Outcome(t, err, store.Permanent, "permission denied")
		// A watch of readable and unreadable keys delivers the readable ones.
		refused := make(chan error, 100)
		stop, err := s.WatchPattern(trial.Within(t), ">", func(store.Entry) {}, func(err error) { refused <- err })
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		if err := <-refused; !errors.Is(err, store.ErrPermanent) {
			t.Errorf("the pattern's initial state: %v", err)
		}
		// A missing right must not count as a lost connection, for which an
		// election would give its term up.
		natslab.Eventually(t, "the store is connected", func(context.Context) error {
			if c := s.ConnState(); c != store.Connected {
				return errors.New(c.String())
			}
			return nil
		})
		h.Value("3")
	})
	t.Run("AnObserver", func(t *testing.T) {
		s := open(t, cluster.Client(t, as("reader")), etcdstore.Options{})
		h := trial.Listen(t, s, "g")
		e := h.Value("3")
		_, err := s.CompareAndSwap(trial.Within(t), store.Write{Key: "g", Expected: e.Revision})
		trial.Outcome(t, err, store.Permanent, "permission denied")
		_, err = s.Check(trial.Within(t), req)
		trial.Outcome(t, err, store.Permanent, "permission denied")
		r, err := s.Check(trial.Within(t), store.CheckRequest{TTL: time.Minute, Reads: []string{"g"}})
		warned(t, r, err)
	})
	t.Run("AUserWithoutRights", func(t *testing.T) {
		s := open(t, cluster.Client(t, as("nothing")), etcdstore.Options{})
		_, err := s.Check(trial.Within(t), req)
		trial.Outcome(t, err, store.Permanent, "permission denied")
	})
	t.Run("Nobody", func(t *testing.T) {
		s := open(t, cluster.Client(t), etcdstore.Options{})
		_, err := s.CompareAndSwap(trial.Within(t), store.Write{Key: "g"})
		trial.Outcome(t, err, store.Permanent, "user name is empty")
		_, err = s.Check(trial.Within(t), req)
		trial.Outcome(t, err, store.Permanent, "user name is empty")
	})
	t.Run("AWrongPasswordIsSaid", func(t *testing.T) {
		_, err := etcdstore.Open(trial.Within(t), "etcd://all:wrong@"+cluster.Nodes[0].Addr)
		trial.Outcome(t, err, store.Permanent, "authentication failed")
		s, err := etcdstore.Open(trial.Within(t), "etcd://all:all@"+cluster.Nodes[0].Addr)
		if err != nil {
			t.Fatal(err)
		}
		trial.Get(t, s, "g")
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Run("AWriteGoesOnAcrossANewLogin", func(t *testing.T) {
		s := open(t, cluster.Client(t, as("all")), etcdstore.Options{})
		rev := trial.Must(t, s, store.Write{Key: "login", Value: []byte("1")})
		// The administrator's change makes all logins old: etcd refuses the
		// write, and the client logs in again.
		grant(t, cluster.Client(t, as("root")), "late", clientv3.PermissionType(clientv3.PermRead), "x", "y")
		rev = trial.Must(t, s, store.Write{Key: "login", Expected: rev, Value: []byte("2")})
		// A restarted server knows no logins.
		h := trial.Listen(t, s, "login")
		cluster.Kill()
		cluster.Run()
		rev = trial.Settle(t, s, "login", rev, "3")
		h.Value("3")
		natslab.Eventually(t, "the store is connected", func(context.Context) error {
			if c := s.ConnState(); c != store.Connected {
				return errors.New(c.String())
			}
			return nil
		})
		trial.Must(t, s, store.Write{Key: "login", Expected: rev, Value: []byte("4")})
		h.Value("4")
	})
}
