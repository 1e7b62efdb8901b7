package redis_test

import (
	"errors"
	"net"
	"net/url"
	"strings"
	"testing"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/redisstore"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/labs/databases"
)

func TestStoreOpensByItsURL(t *testing.T) {
	t.Parallel()
	srv := databases.StartRedis(t)
	srv.Must("ACL", "SETUSER", "me", "on", ">se/cret", "~*", "&*", "+@all")
	st, err := redisstore.Open(trial.Within(t), "redis://me:"+url.PathEscape("se/cret")+"@"+srv.Addr()+"/3?prefix=team:&timeout=2s")
	if err != nil {
		t.Fatal(err)
	}
	rev, err := st.CompareAndSwap(trial.Within(t), store.Write{Key: "reports", Value: []byte("held")})
	if err != nil {
		t.Fatal(err)
	}
	direct := over(t, dial(t, srv.Addr(), inDatabase(3)), redisstore.Options{Prefix: "team:"})
	if e := trial.Get(t, direct, "reports"); e.Revision != rev {
		t.Errorf("the register is at %+v", e)
	}
	for range 2 {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := st.Get(trial.Within(t), "reports"); !errors.Is(err, store.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func TestOpenReportsWhyItFailed(t *testing.T) {
	t.Parallel()
	srv := databases.StartRedis(t)
	gone := databases.StartRedis(t)
	gone.Kill()
	for _, c := range []struct {
		url  string
		want error
		says string
	}{
		{"redis://" + srv.Addr() + "?wait=x", store.ErrInvalid, "wait"},
		{"redis://" + srv.Addr() + "?wait=1;prefix=team:", store.ErrInvalid, `"wait"`},
		{"redis://" + srv.Addr() + "?wait=-1", store.ErrInvalid, "Wait"},
		{"redis://" + srv.Addr() + "?fenced=perhaps", store.ErrInvalid, "fenced"},
		{"redis://" + srv.Addr() + "?timeout=soon", store.ErrInvalid, "timeout"},
		{"redis://" + srv.Addr() + "?prefix=a*", store.ErrInvalid, "Prefix"},
		{"redis://" + srv.Addr() + "?colour=blue", store.ErrInvalid, "colour"},
		{"redis://" + srv.Addr() + "/db", store.ErrInvalid, "database number"},
		{"redis://me:secret@" + srv.Addr(), store.ErrPermanent, "WRONGPASS"},
		{"redis://me:secret@" + gone.Addr(), store.ErrTransient, gone.Addr()},
	} {
		_, err := store.Open(trial.Within(t), c.url, redisstore.Driver())
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v; want %v, and a word of %s", c.url, err, c.want, c.says)
		}
	}
}

func TestURLWithoutAHostFailsInTheNameOfTheDefault(t *testing.T) {
	t.Parallel()
	if c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", "localhost:6379"); err == nil {
		_ = c.Close() // it was only to know
		t.Skip("somebody listens where Redis does by default")
	}
	_, err := redisstore.Open(trial.Within(t), "redis://")
	if !errors.Is(err, store.ErrTransient) || !strings.Contains(err.Error(), "redisstore: localhost: ") {
		t.Errorf("%v; want one that names localhost", err)
	}
}
