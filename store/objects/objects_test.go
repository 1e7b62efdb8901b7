package objects_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/objects"
	"github.com/seed-ff2cb582/leader/store/storetest"
)

// memory is a bucket in memory. Its zero value obeys the contract.
type memory struct {
	mu       sync.Mutex
	objects  map[string]objects.Object
	tags     int
	requests int
	down     bool
	readOnly bool
	clock    func() time.Time

	blind     bool // it ignores conditions over objects
	blindNew  bool // it ignores the condition that there is none
	blindGone bool // it ignores conditions over objects that are gone
	stays     bool // it removes nothing

	writes int
	wrote  func(n int) // receives how many writes there were
}

func (m *memory) Read(_ context.Context, name string) (objects.Object, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.requests++
	if m.down {
		return objects.Object{}, store.ErrTransient
	}
	o := m.objects[name]
	o.Now = time.Now().Truncate(time.Second)
	if m.clock != nil {
		o.Now = m.clock()
	}
	return o, nil
}

func (m *memory) Write(ctx context.Context, name string, content []byte, tag string) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.requests++
	m.writes++
	if m.wrote != nil {
		defer func() { m.wrote(m.writes) }()
	}
	has := m.objects[name].Tag
	ignored := tag == "" && m.blindNew || tag != "" && has != "" && m.blind || tag != "" && has == "" && m.blindGone
	switch {
	case m.down:
		return "", store.ErrTransient
	case ctx.Err() != nil:
		return "", fmt.Errorf("%w: %w", store.ErrTransient, ctx.Err())
	case m.readOnly:
		return "", store.ErrPermanent
	case has != tag && !ignored:
		return "", store.ErrConflict
	}
	return m.put(name, content), nil
}

func (m *memory) put(name string, content []byte) string {
	m.tags++
	tag := fmt.Sprint("tag", m.tags)
	if m.objects == nil {
		m.objects = make(map[string]objects.Object)
	}
	m.objects[name] = objects.Object{Content: bytes.Clone(content), Tag: tag}
	return tag
}

func (m *memory) List(_ context.Context, prefix string) (all []objects.Listed, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.requests++
	if m.down {
		return nil, store.ErrTransient
	}
	for name, o := range m.objects {
		if strings.HasPrefix(name, prefix) {
			all = append(all, objects.Listed{Name: name, Tag: o.Tag})
		}
	}
	return all, nil
}

// change does something to the bucket by the ordinary tools.
func (m *memory) change(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
}

func (m *memory) remove(ctx context.Context, name string) error {
	switch {
	case m.stays:
		return store.ErrPermanent
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %w", store.ErrTransient, ctx.Err())
	}
	m.change(func() { delete(m.objects, name) })
	return nil
}

// spent counts the requests of f.
func (m *memory) spent(f func()) int {
	before := m.requests
	f()
	return m.requests - before
}

func over(tb testing.TB, m *memory, opts objects.Options) *objects.Store {
	tb.Helper()
	s, err := objects.New(m, opts)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = s.Close() })
	return s
}

func must(tb testing.TB, s store.Store, w store.Write) uint64 {
	tb.Helper()
	rev, err := s.CompareAndSwap(tb.Context(), w)
	if err != nil {
		tb.Fatal(err)
	}
	return rev
}

func get(tb testing.TB, s store.Store, key string) store.Entry {
	tb.Helper()
	e, err := s.Get(tb.Context(), key)
	if err != nil {
		tb.Fatal(err)
	}
	return e
}

func TestConformance(t *testing.T) {
	storetest.Run(t, func(tb testing.TB) storetest.Harness {
		m := &memory{}
		names := over(tb, m, objects.Options{})
		var stores []*objects.Store
		return storetest.Harness{
			Open: func(tb testing.TB) store.Store {
				s := over(tb, m, objects.Options{Every: time.Millisecond})
				stores = append(stores, s)
				return s
			},
			Delete: func(key string) error { return m.remove(tb.Context(), names.Name(key)) },
			Put: func(key string, value []byte) error {
				m.change(func() { m.put(names.Name(key), value) })
				return nil
			},
			Purge:     func(key string) error { return m.remove(tb.Context(), names.Name(key)) },
			Interrupt: func() error { m.interrupt(stores); return nil },
		}
	}, storetest.Caps{MaxValue: objects.MaxValue, NoVisible: "a tombstone is an object"})
}

// interrupt has the bucket fail until each store that looks has noticed.
func (m *memory) interrupt(stores []*objects.Store) {
	m.change(func() { m.down = true })
	for _, s := range stores {
		for limit := time.Now().Add(50 * time.Millisecond); s.ConnState() == store.Connected && time.Now().Before(limit); {
			<-time.After(time.Millisecond)
		}
	}
	m.change(func() { m.down = false })
}

func TestARenewalIsOneRequest(t *testing.T) {
	m := &memory{}
	s := over(t, m, objects.Options{})
	rev := must(t, s, store.Write{Key: "a", Value: []byte("first")})
	for range 3 {
		if n := m.spent(func() { rev = must(t, s, store.Write{Key: "a", Expected: rev}) }); n != 1 {
			t.Errorf("a renewal cost %d requests", n)
		}
	}
	other := over(t, m, objects.Options{})
	if n := m.spent(func() { rev = must(t, other, store.Write{Key: "a", Expected: rev}) }); n != 2 {
		t.Errorf("a write over a record that was not seen cost %d requests", n)
	}
	get(t, s, "b")
	if n := m.spent(func() { must(t, s, store.Write{Key: "b"}) }); n != 1 {
		t.Errorf("a record that was just seen to be missing cost %d requests", n)
	}
}

// After a conflict the register is read, so that a tag that is wrong for
// whatever reason does not stay so.
func TestAfterAConflictTheRecordIsReadAgain(t *testing.T) {
	m := &memory{}
	s := over(t, m, objects.Options{})
	rev := must(t, s, store.Write{Key: "a"})
	m.change(func() { // the same content under another tag
		o := m.objects[s.Name("a")]
		o.Tag = "another"
		m.objects[s.Name("a")] = o
	})
	if _, err := s.CompareAndSwap(t.Context(), store.Write{Key: "a", Expected: rev}); !errors.Is(err, store.ErrConflict) {
		t.Fatal(err)
	}
	must(t, s, store.Write{Key: "a", Expected: rev})
}

func TestALookAtManyKeysIsOneList(t *testing.T) {
	m := &memory{}
	s := over(t, m, objects.Options{Every: time.Hour})
	keys := make([]string, 100)
	for i := range keys {
		keys[i] = fmt.Sprint("g", i)
		must(t, s, store.Write{Key: keys[i], Value: []byte("v")})
	}
	var heard sync.WaitGroup
	heard.Add(len(keys))
	n := m.spent(func() {
		stop, err := s.Watch(t.Context(), keys, func(store.Entry) { heard.Done() })
		if err != nil {
			t.Fatal(err)
		}
		heard.Wait()
		stop()
	})
	if n != 1 {
		t.Errorf("100 keys that did not change cost %d requests", n)
	}
}

// A list shows more than what is watched, and nothing of what was just seen to
// be missing.
func TestLookKeepsRevisionsInUse(t *testing.T) {
	m := &memory{}
	s := over(t, m, objects.Options{Every: time.Hour})
	keys := make([]string, 100)
	revs := make([]uint64, len(keys))
	for i := range keys {
		keys[i] = fmt.Sprint("g", i)
		revs[i] = must(t, s, store.Write{Key: keys[i], Value: []byte("v")})
	}
	get(t, s, "g100") // which is not there
	var heard sync.WaitGroup
	heard.Add(50)
	stop, err := s.Watch(t.Context(), keys[:50], func(store.Entry) { heard.Done() })
	if err != nil {
		t.Fatal(err)
	}
	heard.Wait()
	stop()
	for i, key := range keys {
		if n := m.spent(func() { must(t, s, store.Write{Key: key, Expected: revs[i]}) }); n != 1 {
			t.Errorf("after a look a renewal of %s cost %d requests", key, n)
		}
	}
	if n := m.spent(func() { must(t, s, store.Write{Key: "g100"}) }); n != 1 {
		t.Errorf("after a look a record that was just seen to be missing cost %d requests", n)
	}
}

// Two contents must never be confused: some systems compute their tags from it.
func TestNoTwoWritesHaveTheSameContent(t *testing.T) {
	m := &memory{}
	s := over(t, m, objects.Options{})
	rev, seen := uint64(0), map[string]bool{}
	for i := range 20 {
		rev = must(t, s, store.Write{Key: "a", Expected: rev, Value: []byte("same"), Tombstone: i%2 == 0})
		seen[string(m.objects[s.Name("a")].Content)] = true
	}
	if len(seen) != 20 {
		t.Errorf("20 writes left %d contents: %v", len(seen), slices.Collect(maps.Keys(seen)))
	}
}

// The clocks of two machines may differ; the bucket's time bounds by how much
// that counts.
func TestARecordThatIsMadeAgainHasALargerRevision(t *testing.T) {
	system := time.Now().Truncate(time.Second)
	m := &memory{clock: func() time.Time { return system }}
	for name, off := range map[string]time.Duration{"right": 0, "a year behind": -365 * 24 * time.Hour, "a year ahead": 365 * 24 * time.Hour} {
		system = time.Now().Truncate(time.Second).Add(-off) // the machine's is off by as much
		s := over(t, m, objects.Options{})
		first := must(t, s, store.Write{Key: "a"})
		if at := time.UnixMicro(int64(first)); at.Sub(system).Abs() > 3*time.Second {
			t.Errorf("%s: the first revision is of %v, where the bucket has %v", name, at, system)
		}
		rev := first
		for range 3 {
			rev = must(t, s, store.Write{Key: "a", Expected: rev})
		}
		_ = m.remove(t.Context(), s.Name("a"))
		if again := must(t, s, store.Write{Key: "a"}); again <= rev { // by the same store, in the same second
			t.Errorf("%s: revision %d follows %d", name, again, rev)
		}
		_ = m.remove(t.Context(), s.Name("a"))
		system = system.Add(5 * time.Second)
		if again := must(t, over(t, m, objects.Options{}), store.Write{Key: "a"}); again <= rev {
			t.Errorf("%s: revision %d of another store follows %d", name, again, rev)
		}
		_ = m.remove(t.Context(), s.Name("a"))
	}
}

func TestObjectWrittenByOthersBecomesARecord(t *testing.T) {
	m := &memory{}
	s := over(t, m, objects.Options{})
	rev := must(t, s, store.Write{Key: "a", Value: []byte("ours"), Tombstone: true})
	ours := m.objects[s.Name("a")].Content
	for name, content := range map[string][]byte{
		"text":              []byte("by hand"),
		"nothing":           nil,
		"an edited record":  bytes.Replace(ours, []byte("ours"), []byte("mine"), 1),
		"an edited line":    bytes.Replace(ours, []byte("tombstone"), []byte("live"), 1),
		"a line alone":      []byte("leader/1 7 live 0123456789abcdef"),
		"too many words":    []byte("leader/1 7 live 0123456789abcdef x\nv"),
		"no number":         []byte("leader/1 -7 live 0123456789abcdef\nv"),
		"the last revision": []byte("leader/1 18446744073709551615 live 0123456789abcdef\nv"),
	} {
		m.change(func() { m.put(s.Name("a"), content) })
		e := get(t, s, "a")
		if e.Revision <= rev || e.Tombstone || !bytes.Equal(e.Value, content) {
			t.Errorf("%s: %+v after revision %d", name, e, rev)
		}
		if again := get(t, over(t, m, objects.Options{}), "a"); again.Revision != e.Revision || !bytes.Equal(again.Value, content) {
			t.Errorf("%s: another store reads %+v, and the first %+v", name, again, e)
		}
		rev = e.Revision
	}
	m.change(func() { m.put(s.Name("b"), []byte("by hand")); m.readOnly = true })
	if e := get(t, s, "b"); e.Revision != 1 || string(e.Value) != "by hand" {
		t.Errorf("who may not write reads %+v", e)
	}
	m.change(func() { m.readOnly = false; m.put(s.Name("c"), make([]byte, objects.MaxValue+1)) })
	if _, err := s.Get(t.Context(), "c"); !errors.Is(err, store.ErrPermanent) {
		t.Errorf("an object that is too large: %v", err)
	}
}

// After any content of a stranger the next revisions must exist, and be numbers
// that records can state: below 2^53.
func TestHugeRevisionThatAStrangerWroteIsNotBelieved(t *testing.T) {
	for _, huge := range []uint64{1<<53 - 2, 1<<53 - 1, 1 << 53, 1 << 61, math.MaxUint64} {
		m := &memory{}
		s := over(t, m, objects.Options{})
		head := fmt.Sprintf("leader/1 %d live ", huge)
		sum := sha256.Sum256([]byte(head + "value"))
		m.change(func() { m.put(s.Name("k"), fmt.Appendf(nil, "%s%x\nvalue", head, sum[:8])) })
		for i := range 4 {
			e, err := s.Get(t.Context(), "k")
			if err != nil || e.Revision == 0 || e.Revision >= 1<<53-1 {
				t.Fatalf("%d: write %d finds %+v, %v", huge, i, e, err)
			}
			if rev, err := s.CompareAndSwap(t.Context(), store.Write{Key: "k", Expected: e.Revision, Value: []byte("v")}); err != nil || rev >= 1<<53 {
				t.Fatalf("%d: write %d: revision %d, %v", huge, i, rev, err)
			}
		}
	}
}

func TestNamesAreReadableAndTakenByFileSystems(t *testing.T) {
	m := &memory{}
	s := over(t, m, objects.Options{Prefix: "teams/a"})
	long := strings.Repeat("k", store.MaxKey)
	keys := []string{"reports", "_ctl.reports", "a/b", "a", "/", "//", "a/", "/./x", "=", long, long[1:], long[:200], "x" + long[1:]}
	for i, key := range keys {
		must(t, s, store.Write{Key: key, Value: fmt.Append(nil, i)})
	}
	for i, key := range keys {
		if e := get(t, s, key); string(e.Value) != fmt.Sprint(i) {
			t.Errorf("%s shows %s", key, e.Value)
		}
		name, ok := strings.CutPrefix(s.Name(key), "teams/a/")
		for piece := range strings.SplitSeq(name, "/") {
			if !ok || piece == "" || piece == "." || piece == ".." || len(piece) > 255 {
				t.Errorf("%s has the name %s", key, s.Name(key))
			}
		}
	}
	if name := s.Name("_ctl.reports"); name != "teams/a/_ctl.reports" {
		t.Errorf("a plain key has the name %s", name)
	}
}

func TestABucketThatDoesNotObeyIsFoundOut(t *testing.T) {
	for word, m := range map[string]*memory{
		"at once":           {blindNew: true},
		"one condition":     {blind: true},
		"that is gone":      {blindGone: true},
		"the user may not ": {readOnly: true},
	} {
		s := over(t, m, objects.Options{})
		left, err := s.Prove(t.Context(), m.remove)
		if !errors.Is(err, store.ErrPermanent) || !m.readOnly && !strings.Contains(err.Error(), word) || left != nil {
			t.Errorf("%s: %v, %v", word, err, left)
		}
		if len(m.objects) != 0 {
			t.Errorf("%s: %d objects are left", word, len(m.objects))
		}
	}
	m := &memory{}
	s := over(t, m, objects.Options{})
	if left, err := s.Prove(t.Context(), m.remove); left != nil || err != nil || len(m.objects) != 0 {
		t.Errorf("one that obeys: %v, %v, and %d objects are left", left, err, len(m.objects))
	}
	m.stays = true
	if left, err := s.Prove(t.Context(), m.remove); left == nil || err != nil {
		t.Errorf("one that removes nothing: %v, %v", left, err)
	}
	m.down = true
	if _, err := s.Prove(t.Context(), m.remove); store.Classify(err) != store.Transient {
		t.Errorf("one that does not answer: %v", err)
	}
}

// A caller gives up its check, and starts again: each check would leave an
// object.
func TestACheckThatIsGivenUpLeavesNoObject(t *testing.T) {
	for writes := range 20 {
		m := &memory{}
		s := over(t, m, objects.Options{})
		ctx, cancel := context.WithCancelCause(t.Context())
		m.wrote = func(n int) {
			if n > writes {
				cancel(errors.New("given up"))
			}
		}
		left, err := s.Prove(ctx, m.remove)
		if left != nil || len(m.objects) != 0 {
			t.Errorf("given up after %d writes: %d objects are left; %v, %v", writes, len(m.objects), left, err)
		}
		m.stays = true
		ctx, cancel = context.WithCancelCause(t.Context())
		if left, err := s.Prove(ctx, m.remove); err != nil && (left == nil || !strings.Contains(err.Error(), "is left")) {
			t.Errorf("the object is not removed, which is not told beside the error: %v, %v", left, err)
		}
		cancel(nil)
	}
}

func TestRightsAreFoundOutWithoutAWrite(t *testing.T) {
	m := &memory{}
	s := over(t, m, objects.Options{})
	rev := must(t, s, store.Write{Key: "a", Value: []byte("v")})
	req := store.CheckRequest{Key: "a", Reads: []string{"b"}}
	if err := s.Rights(t.Context(), req, "no tag"); err != nil {
		t.Error(err)
	}
	if e := get(t, s, "a"); e.Revision != rev {
		t.Errorf("the record was changed: %+v", e)
	}
	m.readOnly = true
	if err := s.Rights(t.Context(), req, "no tag"); !errors.Is(err, store.ErrPermanent) {
		t.Error(err)
	}
	if err := s.Rights(t.Context(), store.CheckRequest{}, "no tag"); err != nil {
		t.Errorf("who writes nothing: %v", err)
	}
}

// listed watches what the pattern matches, and returns a function that waits
// until a key is heard of that is there, or gone.
func listed(t *testing.T, s *objects.Store, pattern string) (wait func(key string, there bool)) {
	t.Helper()
	heard := make(chan store.Entry, 100)
	stop, err := s.WatchPattern(t.Context(), pattern, func(e store.Entry) {
		select {
		case heard <- e:
		case <-t.Context().Done():
		}
	}, func(error) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return func(key string, there bool) {
		t.Helper()
		for limit := time.After(time.Minute); ; {
			select {
			case e := <-heard:
				if e.Key == key && there == (e.Revision != 0) {
					return
				}
			case <-limit:
				t.Fatalf("key %s: there is %v, and this was not heard of for a minute", key, there)
			}
		}
	}
}

// heap is how much memory is in use.
func heap() uint64 {
	runtime.GC()
	runtime.GC() // what a pool held
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestARecordThatIsGoneTakesNoMemory(t *testing.T) {
	m := &memory{}
	s := over(t, m, objects.Options{Every: time.Millisecond})
	wait := listed(t, s, "job.*")
	before := heap()
	const rounds, size = 100, 256 << 10
	for i := range rounds {
		key := fmt.Sprint("job.", i)
		must(t, s, store.Write{Key: key, Value: make([]byte, size)})
		wait(key, true)
		_ = m.remove(t.Context(), s.Name(key))
		wait(key, false)
	}
	if more := int64(heap()) - int64(before); more > rounds*size/2 {
		t.Errorf("%d records of %d bytes, of which none is left, take %d", rounds, size, more)
	}
	runtime.KeepAlive(s)
}

// The revisions of a record that is gone must not come again, also if the
// system's clock is set back.
func TestARecordThatIsForgottenHasALargerRevisionWhenItIsMadeAgain(t *testing.T) {
	m := &memory{}
	s := over(t, m, objects.Options{Every: time.Millisecond})
	wait := listed(t, s, "job.*")
	rev := must(t, s, store.Write{Key: "job.a"})
	wait("job.a", true)
	_ = m.remove(t.Context(), s.Name("job.a"))
	wait("job.a", false)
	m.change(func() { m.clock = func() time.Time { return time.Now().Add(-time.Hour) } })
	if again := must(t, s, store.Write{Key: "job.a"}); again <= rev {
		t.Errorf("revision %d follows %d", again, rev)
	}
}

// A revision far ahead of the clock does not raise other keys' revisions.
func TestForgottenRevisionAffectsItsKeyOnly(t *testing.T) {
	m := &memory{}
	s := over(t, m, objects.Options{Every: time.Millisecond})
	wait := listed(t, s, "job.*")
	year := 365 * 24 * time.Hour
	elsewhere := &memory{clock: func() time.Time { return time.Now().Add(year) }}
	ahead := must(t, over(t, elsewhere, objects.Options{}), store.Write{Key: "job.a"})
	m.change(func() { m.put(s.Name("job.a"), elsewhere.objects[s.Name("job.a")].Content) })
	wait("job.a", true)
	_ = m.remove(t.Context(), s.Name("job.a"))
	wait("job.a", false)
	if rev := must(t, s, store.Write{Key: "job.b"}); rev >= ahead {
		t.Errorf("another key has the revision %d, and what is gone had %d", rev, ahead)
	}
	if again := must(t, s, store.Write{Key: "job.a"}); again <= ahead {
		t.Errorf("revision %d follows %d", again, ahead)
	}
}

// A program may have to do with ever new keys, and list none.
func TestUnusedRevisionsAreForgotten(t *testing.T) {
	m := &memory{}
	s := over(t, m, objects.Options{})
	left := must(t, s, store.Write{Key: "left"})
	kept := must(t, s, store.Write{Key: "kept"})
	for i := range 30_000 {
		get(t, s, fmt.Sprint("job.", i))
		if i%5_000 != 0 {
			continue
		}
		if n := m.spent(func() { kept = must(t, s, store.Write{Key: "kept", Expected: kept}) }); n != 1 {
			t.Errorf("a renewal after %d other keys cost %d requests", i, n)
		}
	}
	if n := m.spent(func() { must(t, s, store.Write{Key: "left", Expected: left}) }); n != 2 {
		t.Errorf("a write over a record that was last seen 30,000 keys ago cost %d requests: it is still remembered", n)
	}
}

func TestEveryInvalidOptionIsReported(t *testing.T) {
	_, err := objects.New(nil, objects.Options{Prefix: "a//b", Timeout: -1, Every: -1})
	for _, word := range []string{"bucket", "Prefix", "Timeout", "Every"} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%q is not told: %v", word, err)
		}
	}
	for _, prefix := range []string{"/", "/a", ".", "..", "a/../b", "ä", "a b", strings.Repeat("a/", 257)} {
		if _, err := objects.New(&memory{}, objects.Options{Prefix: prefix}); err == nil {
			t.Errorf("prefix %q is taken", prefix)
		}
	}
}

func TestAClosedStoreStaysClosed(t *testing.T) {
	s := over(t, &memory{}, objects.Options{})
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	_, read := s.Get(t.Context(), "a")
	_, write := s.CompareAndSwap(t.Context(), store.Write{Key: "a"})
	_, watch := s.Watch(t.Context(), []string{"a"}, func(store.Entry) {})
	for what, err := range map[string]error{"Get": read, "CompareAndSwap": write, "Watch": watch, "Ping": s.Ping(t.Context())} {
		if !errors.Is(err, store.ErrClosed) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
