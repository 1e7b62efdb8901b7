package redis_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/redisstore"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/labs/databases"
)

// told is the outcome of a write.
type told struct {
	rev uint64
	err error
}

// begin sends a write, and returns the channel of its outcome.
func begin(ctx context.Context, st store.Store, w store.Write) <-chan told {
	end := make(chan told, 1)
	go func() {
		rev, err := st.CompareAndSwap(ctx, w)
		end <- told{rev, err}
	}()
	return end
}

// ends waits for the end of a write.
func ends(t *testing.T, end <-chan told) told {
	t.Helper()
	select {
	case got := <-end:
		return got
	case <-time.After(databases.Patience):
		t.Fatal("the write does not return")
		return told{}
	}
}

// scripts is how many scripts the server was ordered to execute.
func scripts(srv *databases.Redis) (n int64) {
	_, after, _ := strings.Cut(srv.Must("INFO", "commandstats"), "cmdstat_evalsha:calls=")
	n, _ = strconv.ParseInt(strings.SplitN(after, ",", 2)[0], 10, 64) // none is not listed
	return n
}

func TestWriteForWhichNoConnectionIsFreeIsTransient(t *testing.T) {
	t.Parallel()
	srv := databases.StartRedis(t)
	rdb := dial(t, srv.Addr(), func(o *redis.Options) { o.PoolSize = 1 })
	busy := make(chan error, 1)
	go func() { busy <- rdb.BLPop(trial.Within(t), 0, "list").Err() }()
	trial.Await(t, "the connection is busy", func() bool {
		return strings.Contains(srv.Must("INFO", "clients"), "blocked_clients:1")
	})
	crowded := over(t, rdb, redisstore.Options{})
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := crowded.CompareAndSwap(short, store.Write{Key: "reports", Value: []byte("unsent")})
	trial.Outcome(t, err, store.Transient)
	srv.Must("RPUSH", "list", "go")
	if err := <-busy; err != nil {
		t.Fatal(err)
	}
	put(t, crowded, "other", 0, "after") // by the same connection
	if e := trial.Get(t, crowded, "reports"); e.Revision != 0 {
		t.Errorf("a write that never left was applied: %+v", e)
	}
}

func TestWriteAbandonedBeforeItLeavesNeverLeaves(t *testing.T) {
	t.Parallel()
	srv := databases.StartRedis(t)
	// A hook of the caller's holds the command back until the call has been
	// given up, and ignores the context.
	held, free := make(chan struct{}), make(chan struct{})
	put(t, over(t, dial(t, srv.Addr()), redisstore.Options{}), "other", 0, "so that the server knows the script")
	rdb := dial(t, srv.Addr())
	rdb.AddHook(&gate{held: held, free: free})
	st := over(t, rdb, redisstore.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	end := begin(ctx, st, store.Write{Key: "reports", Value: []byte("abandoned")})
	<-held
	cancel()
	if got := ends(t, end); store.Classify(got.err) != store.Transient {
		t.Errorf("a write that was given up before it was sent ended %v", got.err)
	}
	close(free)
	_ = st.Close() // waits for the call
	if e := trial.Get(t, over(t, dial(t, srv.Addr()), redisstore.Options{}), "reports"); e.Revision != 0 {
		t.Errorf("a write that was reported to have had no effect was applied later: %+v", e)
	}
}

// A gate holds scripts back.
type gate struct{ held, free chan struct{} }

func (*gate) DialHook(next redis.DialHook) redis.DialHook { return next }
func (*gate) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (g *gate) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "evalsha" {
			close(g.held)
			<-g.free
			ctx = context.WithoutCancel(ctx)
		}
		return next(ctx, cmd)
	}
}

func TestRefusalsOfTheServerChangeNothing(t *testing.T) {
	t.Parallel()
	srv := databases.StartRedis(t)
	st := over(t, dial(t, srv.Addr()), redisstore.Options{})
	rev := put(t, st, "reports", 0, "held")
	refused := func(what string, want store.Outcome, key string, expected uint64) {
		t.Helper()
		_, err := st.CompareAndSwap(trial.Within(t), store.Write{Key: key, Expected: expected, Value: []byte("refused")})
		if store.Classify(err) != want {
			t.Errorf("%s: %v", what, err)
		}
	}
	srv.Must("CONFIG", "SET", "maxmemory", "1")
	refused("no memory", store.Permanent, "reports", rev)
	srv.Must("CONFIG", "SET", "maxmemory", "0")
	srv.Must("CONFIG", "SET", "min-replicas-to-write", "1")
	refused("no replicas", store.Transient, "reports", rev)
	srv.Must("CONFIG", "SET", "min-replicas-to-write", "0")
	srv.Must("RPUSH", "leader:list", "element")
	refused("a list", store.Permanent, "list", 0)
	if _, err := st.Get(trial.Within(t), "list"); store.Classify(err) != store.Permanent {
		t.Errorf("reading a list: %v", err)
	}
	if e := trial.Get(t, st, "reports"); e.Revision != rev {
		t.Errorf("a refused write was applied: %+v", e)
	}
	if n := srv.Must("LLEN", "leader:list"); n != "1" {
		t.Errorf("the list has %s elements", n)
	}
}

func TestForeignContentKeepsItsValueAndExpiry(t *testing.T) {
	t.Parallel()
	srv := databases.StartRedis(t)
	st := over(t, dial(t, srv.Addr()), redisstore.Options{})
	held := put(t, st, "reports", 0, "held")
	for _, content := range []string{
		"foreign", "", "leader/1 7 live", "leader/1 07 live\nx", "leader/1 7 dead\nx", "leader/1 -7 live\nx", "leader/1 9007199254740991 live\nx",
		"leader/1 99999999999999999999 live\nx", "leader/2 7 live\nx", "leader/1 7 live x\nx", "leader/1 0 live\nx",
	} {
		srv.Must("SET", "leader:reports", content, "PX", "3600000")
		if _, err := st.CompareAndSwap(trial.Within(t), store.Write{Key: "reports", Expected: 0}); store.Classify(err) != store.Conflict {
			t.Errorf("a claim of %q: %v", content, err)
		}
		e := trial.Get(t, st, "reports")
		if e.Revision <= held || string(e.Value) != content || e.Tombstone {
			t.Errorf("%q reads as %+v after revision %d", content, e, held)
		}
		if again := trial.Get(t, st, "reports"); again.Revision != e.Revision {
			t.Errorf("%q is at revision %d, and then at %d", content, e.Revision, again.Revision)
		}
		if left := srv.Must("PTTL", "leader:reports"); left == "-1" {
			t.Errorf("%q does not expire any more", content)
		}
		held = put(t, st, "reports", e.Revision, "held again")
		if left := srv.Must("PTTL", "leader:reports"); left != "-1" {
			t.Errorf("a record that replaced %q expires in %s ms", content, left)
		}
	}
}

// In its last millisecond content is there, and has 0 ms left.
func TestForeignContentThatIsAboutToExpireDoes(t *testing.T) {
	t.Parallel()
	srv := databases.StartRedis(t)
	rdb := dial(t, srv.Addr())
	// The clock is stopped during a script, so that a script that begins so
	// meets just that millisecond.
	hook := &preface{text: `
redis.call('SET', KEYS[1], 'foreign', 'PX', 3600000)
local now = redis.call('PEXPIRETIME', KEYS[1]) - redis.call('PTTL', KEYS[1])
redis.call('SET', KEYS[1], 'foreign', 'PXAT', now)
if redis.call('PTTL', KEYS[1]) ~= 0 then return {'refused', 'ERR it is another millisecond'} end
`}
	rdb.AddHook(hook)
	srv.Must("SET", "leader:reports", "foreign")
	if e := trial.Get(t, over(t, rdb, redisstore.Options{}), "reports"); string(e.Value) != "foreign" || e.Revision <= 1 || !hook.said {
		t.Errorf("it reads as %+v", e)
	}
	if left := srv.Must("PTTL", "leader:reports"); left == "-1" {
		t.Error("it does not expire any more")
	}
}

// A preface is put before each script that is sent as a text.
type preface struct {
	text string
	said bool
}

func (*preface) DialHook(next redis.DialHook) redis.DialHook { return next }
func (*preface) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (p *preface) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if args := cmd.Args(); cmd.Name() == "eval" {
			args[1] = p.text + fmt.Sprint(args[1])
			p.said = true
		}
		return next(ctx, cmd)
	}
}

// The server's clock is set back, or two writes come in a microsecond: a record
// that is replaced has a later revision all the same.
func TestRevisionsGrowWhileTheClockIsSetBack(t *testing.T) {
	t.Parallel()
	srv := databases.StartRedis(t)
	st := over(t, dial(t, srv.Addr()), redisstore.Options{})
	// As if it had been written an hour ahead.
	ahead := uint64(time.Now().Add(time.Hour).UnixMicro())
	srv.Must("SET", "leader:reports", fmt.Sprintf("leader/1 %d live\nheld", ahead))
	for rev := ahead; rev < ahead+3; rev++ {
		if next := put(t, st, "reports", rev, "renewed"); next != rev+1 {
			t.Fatalf("revision %d is replaced by %d", rev, next)
		}
	}
}

func TestARenewalIsOneRoundTrip(t *testing.T) {
	t.Parallel()
	srv := databases.StartRedis(t)
	st := over(t, dial(t, srv.Addr()), redisstore.Options{})
	rev := put(t, st, "reports", 0, "held")
	srv.Must("CONFIG", "RESETSTAT")
	for range 100 {
		rev = put(t, st, "reports", rev, "renewed")
	}
	stats := srv.Must("INFO", "commandstats")
	if !strings.Contains(stats, "cmdstat_evalsha:calls=100,") || strings.Contains(stats, "cmdstat_eval:") {
		t.Errorf("100 renewals made these commands:\n%s", stats)
	}
	// The server has forgotten the script, as after its restart.
	srv.Must("SCRIPT", "FLUSH")
	put(t, st, "reports", rev, "renewed")
}

func TestDatabasesOfAServerShareNoNews(t *testing.T) {
	t.Parallel()
	srv := databases.StartRedis(t)
	one := over(t, dial(t, srv.Addr(), inDatabase(1)), redisstore.Options{})
	zero := over(t, dial(t, srv.Addr()), redisstore.Options{})
	for _, pair := range [][2]*redisstore.Store{{zero, one}, {one, zero}} {
		heard := make(chan store.Entry, 16)
		stop, err := pair[0].WatchPattern(trial.Within(t), ">", func(e store.Entry) { heard <- e }, func(error) {})
		if err != nil {
			t.Fatal(err)
		}
		trial.Await(t, "the subscription", func() bool {
			return srv.Must("PUBSUB", "NUMPAT") != "0"
		})
		put(t, pair[1], "theirs", trial.Get(t, pair[1], "theirs").Revision, "theirs")
		rev := put(t, pair[0], "ours", 0, "ours")
		for e := range heard {
			if e.Key == "theirs" && string(e.Value) == "theirs" && e.Revision > trial.Get(t, pair[0], "theirs").Revision {
				t.Errorf("a watch heard of another database's key: %+v", e)
			}
			if e.Revision == rev {
				break
			}
		}
		stop()
	}
}
