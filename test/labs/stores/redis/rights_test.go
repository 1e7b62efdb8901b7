package redis_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/redisstore"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/labs/databases"
)

// The rights that the package documentation lists.
var (
	candidate = strings.Fields("on >secret resetkeys ~leader:* resetchannels &leader:* -@all" +
		" +get +set +time +pttl +evalsha +eval +publish +subscribe +unsubscribe +ping +info +config|get")
	observer = strings.Fields("on >secret resetkeys %R~leader:* resetchannels &leader:* -@all" +
		" +get +scan +subscribe +unsubscribe +psubscribe +punsubscribe +ping")
)

// as returns a client of a user with these rights.
func as(t *testing.T, srv *databases.Redis, name string, rights []string) *redis.Client {
	t.Helper()
	srv.Must(append([]string{"ACL", "SETUSER", name, "reset"}, rights...)...)
	return dial(t, srv.Addr(), func(o *redis.Options) { o.Username, o.Password = name, "secret" })
}

func TestCandidateNeedsNoMoreThanItsRights(t *testing.T) {
	t.Parallel()
	srv := databases.StartRedis(t)
	st := over(t, as(t, srv, "candidate", candidate), redisstore.Options{})
	if r, err := check(t, st); err != nil || len(r.Warnings) > 0 || r.Forgetful {
		t.Errorf("Check: %+v, %v", r, err)
	}
	heard := make(chan store.Entry, 16)
	stop, err := st.Watch(trial.Within(t), []string{"reports"}, func(e store.Entry) { heard <- e })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	trial.Await(t, "the subscription", func() bool { return srv.Must("PUBLISH", "leader:reports", "hint") == "1" })
	rev := put(t, st, "reports", 0, "held")
	for e := range heard {
		if e.Revision == rev {
			break
		}
	}
	srv.Must("SET", "leader:reports", "foreign")
	if e := trial.Get(t, st, "reports"); e.Revision <= rev {
		t.Errorf("foreign content reads as %+v", e)
	}
	for _, command := range [][]any{{"del", "leader:reports"}, {"get", "other"}, {"set", "other", "v"}, {"flushall"}, {"config", "set", "appendonly", "no"}} {
		if err := as(t, srv, "candidate", candidate).Do(trial.Within(t), command...).Err(); err == nil {
			t.Errorf("the candidate may run %v", command)
		}
	}
}

func TestCandidateForOneGroupNeedsNoOther(t *testing.T) {
	t.Parallel()
	srv := databases.StartRedis(t)
	var rights []string
	for _, right := range candidate {
		switch right {
		case "~leader:*":
			rights = append(rights, "~leader:reports", "%R~leader:_ctl.reports")
		case "&leader:*":
			rights = append(rights, "&leader:", "&leader:reports", "&leader:_ctl.reports")
		default:
			rights = append(rights, right)
		}
	}
	st := over(t, as(t, srv, "reporter", rights), redisstore.Options{})
	if r, err := check(t, st); err != nil || len(r.Warnings) > 0 || r.Forgetful {
		t.Errorf("Check: %+v, %v", r, err)
	}
	stop, err := st.Watch(trial.Within(t), []string{"reports", "_ctl.reports"}, func(store.Entry) {})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	trial.Await(t, "the subscriptions", func() bool {
		return srv.Must("PUBLISH", "leader:reports", "hint") == "1" && srv.Must("PUBLISH", "leader:_ctl.reports", "hint") == "1"
	})
	put(t, st, "reports", 0, "held")
	if _, err := st.CompareAndSwap(trial.Within(t), store.Write{Key: "_ctl.reports"}); store.Classify(err) != store.Permanent {
		t.Errorf("a write to the control record ended %v", err)
	}
	if _, err := st.Get(trial.Within(t), "others"); store.Classify(err) != store.Permanent {
		t.Errorf("a read of another group's record ended %v", err)
	}
}

// If one of its rights is missing, a candidate gets an error that names it.
func TestEachRightOfACandidateIsNeeded(t *testing.T) {
	t.Parallel()
	srv := databases.StartRedis(t)
	for right, want := range map[string]struct {
		err       bool   // Check refuses
		warning   string // or warns
		forgetful bool
	}{
		"+get": {err: true}, "+set": {err: true}, "+time": {err: true}, "+evalsha": {err: true}, "+eval": {err: true},
		"~leader:*":   {err: true},
		"+publish":    {warning: "PUBLISH"},
		"+subscribe":  {warning: "SUBSCRIBE"},
		"&leader:*":   {warning: "PUBLISH"},
		"+info":       {warning: "INFO", forgetful: true},
		"+config|get": {warning: "CONFIG", forgetful: true},
	} {
		rights := slices.DeleteFunc(slices.Clone(candidate), func(r string) bool { return r == right })
		name := "without" + strings.Trim(strings.NewReplacer("|", "", "~", "key", "&", "channel", ":*", "").Replace(right), "+")
		r, err := check(t, over(t, as(t, srv, name, rights), redisstore.Options{}))
		if errors.Is(err, store.ErrPermanent) != want.err || r.Forgetful != want.forgetful || !strings.Contains(strings.Join(r.Warnings, "\n"), want.warning) {
			t.Errorf("without %s: %+v, %v; want %+v", right, r, err, want)
		}
	}
	wrong := dial(t, srv.Addr(), func(o *redis.Options) { o.Username, o.Password = "candidate", "wrong" })
	if _, err := check(t, over(t, wrong, redisstore.Options{})); store.Classify(err) != store.Permanent {
		t.Errorf("with a wrong password: %v", err)
	}
	if _, err := over(t, wrong, redisstore.Options{}).CompareAndSwap(trial.Within(t), store.Write{Key: "reports"}); store.Classify(err) != store.Permanent {
		t.Errorf("a write with a wrong password: %v", err)
	}
}

// A user that may not write gets an error, and nothing is lost.
func TestWriteWithoutTheRightIsPermanent(t *testing.T) {
	t.Parallel()
	srv := databases.StartRedis(t)
	rev := put(t, over(t, dial(t, srv.Addr()), redisstore.Options{}), "reports", 0, "held")
	for _, right := range []string{"+set", "+get", "+time", "+evalsha", "~leader:*"} {
		rights := slices.DeleteFunc(slices.Clone(candidate), func(r string) bool { return r == right })
		st := over(t, as(t, srv, "denied", rights), redisstore.Options{})
		_, err := st.CompareAndSwap(trial.Within(t), store.Write{Key: "reports", Expected: rev, Value: []byte("denied")})
		if store.Classify(err) != store.Permanent {
			t.Errorf("a write without %s ended %v", right, err)
		}
	}
	if e := trial.Get(t, over(t, dial(t, srv.Addr()), redisstore.Options{}), "reports"); e.Revision != rev {
		t.Errorf("the register is at %+v", e)
	}
	// A write that cannot be published is still a write.
	rights := slices.DeleteFunc(slices.Clone(candidate), func(r string) bool { return r == "+publish" })
	put(t, over(t, as(t, srv, "mute", rights), redisstore.Options{}), "reports", rev, "unpublished")
}

func TestObserverReadsAndNoMore(t *testing.T) {
	t.Parallel()
	srv := databases.StartRedis(t)
	writer := over(t, dial(t, srv.Addr()), redisstore.Options{})
	rev := put(t, writer, "team.a", 0, "held")
	st := over(t, as(t, srv, "observer", observer), redisstore.Options{})
	heard, present := make(chan store.Entry, 16), make(chan error, 16)
	stop, err := st.WatchPattern(trial.Within(t), "team.*", func(e store.Entry) { heard <- e }, func(err error) { present <- err })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if err := <-present; err != nil {
		t.Errorf("the initial state: %v", err)
	}
	trial.Await(t, "the subscription", func() bool { return srv.Must("PUBSUB", "NUMPAT") == "1" })
	rev = put(t, writer, "team.a", rev, "renewed")
	for e := range heard {
		if e.Revision == rev {
			break
		}
	}
	if _, err := st.CompareAndSwap(trial.Within(t), store.Write{Key: "team.a", Expected: rev}); store.Classify(err) != store.Permanent {
		t.Errorf("an observer's write ended %v", err)
	}
	srv.Must("SET", "leader:team.b", "foreign")
	if e := trial.Get(t, st, "team.b"); string(e.Value) != "foreign" || e.Revision != 1 {
		t.Errorf("an observer reads foreign content as %+v", e)
	}
}

// Another tool's content has no revision for clients that may not give it one.
func TestObserverHearsOfEachForeignContent(t *testing.T) {
	t.Parallel()
	srv := databases.StartRedis(t)
	st := over(t, as(t, srv, "observer", observer), redisstore.Options{})
	st.Pace(100 * time.Millisecond)
	srv.Must("SET", "leader:reports", "one")
	heard := make(chan store.Entry, 16)
	ctx := trial.Within(t)
	stop, err := st.Watch(ctx, []string{"reports"}, func(e store.Entry) { heard <- e })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	for _, content := range []string{"one", "two"} {
		srv.Must("SET", "leader:reports", content)
		for last := ""; last != content; {
			select {
			case e := <-heard:
				last = string(e.Value)
			case <-ctx.Done():
				t.Fatalf("the register holds %q, and the watch does not report it", content)
			}
		}
	}
}

// Without channels a user looks instead, and counts as connected.
func TestUserWithoutChannelsFindsChangesByLooking(t *testing.T) {
	t.Parallel()
	srv := databases.StartRedis(t)
	rights := slices.DeleteFunc(slices.Clone(candidate), func(r string) bool { return r == "&leader:*" })
	st := over(t, as(t, srv, "deaf", rights), redisstore.Options{})
	st.Pace(100 * time.Millisecond)
	states := make(chan store.ConnState, 16)
	defer st.OnConnState(func(s store.ConnState) { states <- s })()
	heard := make(chan store.Entry, 16)
	stop, err := st.Watch(trial.Within(t), []string{"reports"}, func(e store.Entry) { heard <- e })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	rev := uint64(0)
	for range 3 {
		rev = put(t, st, "reports", rev, "written")
		for e := range heard {
			if e.Revision == rev {
				break
			}
		}
	}
	if len(states) > 0 || st.ConnState() != store.Connected {
		t.Errorf("it counts as %v", st.ConnState())
	}
}
