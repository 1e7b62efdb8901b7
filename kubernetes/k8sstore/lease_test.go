package k8sstore

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seed-ff2cb582/leader/store"
)

// stored is what the server makes of a Lease.
func stored(t *testing.T, l *coordinationv1.Lease, rev int, previous *lease) *lease {
	t.Helper()
	l = l.DeepCopy()
	l.ResourceVersion, l.UID = strconv.Itoa(rev), "uid"
	n, err := newLease("g", l, previous)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func write(t *testing.T, v string, tombstone bool, rev int, previous *lease, at time.Time) *lease {
	t.Helper()
	return stored(t, put("g", "", store.Write{Key: "g", Value: []byte(v), Tombstone: tombstone}, previous, at), rev, previous)
}

var noon = time.Date(2026, 11, 23, 12, 0, 0, 123456789, time.UTC)

func TestSpecMatchesTheRecord(t *testing.T) {
	t.Parallel()
	claimed := write(t, `{"id":"a","token":"1","ttl":10000,"drift":0.1}`, false, 5, nil, noon)
	renewedAt := noon.Add(time.Second)
	renewal := write(t, `{"id":"a","token":"1","ttl":10000,"drift":0.1,"term":5,"renewal":1}`, false, 6, claimed, renewedAt)
	left := write(t, `{"token":"1","term":5,"reason":"resigned"}`, true, 7, renewal, renewedAt.Add(time.Second))
	taken := write(t, `{"id":"b","token":"2","ttl":900,"drift":0.2}`, false, 8, left, renewedAt.Add(2*time.Second))
	for _, c := range []struct {
		l                    *lease
		holder               string
		seconds, transitions int32
		acquired             time.Time
	}{
		{claimed, "a", 11, 0, noon},
		{renewal, "a", 11, 0, noon},
		{left, "", 1, 0, renewedAt.Add(time.Second)},
		{taken, "b", 2, 1, renewedAt.Add(2 * time.Second)},
	} {
		s := c.l.Spec
		if value(s.HolderIdentity) != c.holder || value(s.LeaseDurationSeconds) != c.seconds || value(s.LeaseTransitions) != c.transitions ||
			!s.AcquireTime.Equal(new(metav1.NewMicroTime(c.acquired.Truncate(time.Microsecond)))) {
			t.Errorf("revision %d: %+v", c.l.rev, s)
		}
	}
	if e := left.entry(); !e.Tombstone || !strings.Contains(string(e.Value), "resigned") || e.Revision != 7 {
		t.Errorf("%+v", e)
	}
}

// The server refuses a Lease with a negative number, so the largest number must
// not overflow: the group would have no leader for ever.
func TestTransitionsThatAStrangerWroteKeepNobodyFromClaiming(t *testing.T) {
	t.Parallel()
	l := write(t, `{"id":"a","token":"1","ttl":1000}`, false, 5, nil, noon)
	l.Spec.LeaseTransitions = new(int32(math.MaxInt32))
	next := write(t, `{"id":"b","token":"2","ttl":1000}`, false, 6, l, noon.Add(time.Second))
	if n := value(next.Spec.LeaseTransitions); n != math.MaxInt32 {
		t.Errorf("%d transitions", n)
	}
}

// A stopped clock must not make two renewals look alike to client-go, which
// compares the spec.
func TestRenewalsHaveDifferentTimes(t *testing.T) {
	t.Parallel()
	first := write(t, `{"id":"a","token":"1","ttl":1000}`, false, 5, nil, noon)
	second := write(t, `{"id":"a","token":"1","ttl":1000,"term":5}`, false, 6, first, noon)
	if first.Spec.RenewTime.Equal(second.Spec.RenewTime) {
		t.Error(first.Spec.RenewTime)
	}
}

// edited is a Lease as another program leaves it that keeps the annotations.
func edited(t *testing.T, l *lease, rev int, edit func(*coordinationv1.LeaseSpec)) *lease {
	t.Helper()
	c := l.DeepCopy()
	edit(&c.Spec)
	return stored(t, c, rev, l)
}

// foreignHolder is a spec that client-go writes.
func foreignHolder(id string, seconds int32, renewed time.Time) func(*coordinationv1.LeaseSpec) {
	return func(s *coordinationv1.LeaseSpec) {
		at := metav1.NewMicroTime(renewed)
		s.HolderIdentity, s.LeaseDurationSeconds, s.RenewTime = &id, &seconds, &at
	}
}

func TestSpecDecidesWhoseLeaseItIs(t *testing.T) {
	t.Parallel()
	ours := write(t, `{"id":"a","token":"1","ttl":10000}`, false, 5, nil, noon)
	theirs := edited(t, ours, 6, foreignHolder("pod-1", 15, noon.Add(time.Minute)))
	e := theirs.entry()
	if want := `"id":"pod-1"`; !strings.Contains(string(e.Value), want) || !strings.Contains(string(e.Value), `"ttl":15000`) || e.Tombstone {
		t.Errorf("%s", e.Value)
	}
	if times := fmt.Sprintf(`"acquired":%d,"renewed":%d`, noon.UnixMilli(), noon.Add(time.Minute).UnixMilli()); !strings.Contains(string(e.Value), times) {
		t.Errorf("the times come from the spec: %s", e.Value)
	}
	if strings.Contains(string(e.Value), `"term"`) {
		t.Errorf("the first revision seen of a claim is its term: %s", e.Value)
	}
	renewal := edited(t, theirs, 7, foreignHolder("pod-1", 15, noon.Add(2*time.Minute)))
	if e := renewal.entry(); !strings.Contains(string(e.Value), `"term":6`) {
		t.Errorf("a renewal is of the same term: %s", e.Value)
	}
	again := edited(t, renewal, 8, func(s *coordinationv1.LeaseSpec) { s.LeaseTransitions = new(int32(1)) })
	if e := again.entry(); strings.Contains(string(e.Value), `"term"`) {
		t.Errorf("another claim is another term: %s", e.Value)
	}
	// Its name is the same as ours, and yet it is not our record.
	namesake := edited(t, ours, 6, foreignHolder("a", 11, noon.Add(time.Minute)))
	if e := namesake.entry(); strings.Contains(string(e.Value), `"token":"1"`) {
		t.Errorf("%s", e.Value)
	}
	endless := edited(t, ours, 6, func(s *coordinationv1.LeaseSpec) {
		foreignHolder("pod-1", 0, noon.Add(time.Minute))(s)
		s.LeaseDurationSeconds = nil
	})
	if e := endless.entry(); strings.Contains(string(e.Value), `"ttl"`) {
		t.Errorf("%s", e.Value)
	}
}

func TestOnlyAReleaseIsPermission(t *testing.T) {
	t.Parallel()
	ours := write(t, `{"id":"a","token":"1","ttl":10000}`, false, 5, nil, noon)
	at := metav1.NewMicroTime(noon.Add(time.Minute))
	for name, c := range map[string]struct {
		edit   func(*coordinationv1.LeaseSpec)
		vacant bool
	}{
		"client-go releases": {func(s *coordinationv1.LeaseSpec) {
			*s = coordinationv1.LeaseSpec{LeaseDurationSeconds: new(int32(1)), AcquireTime: &at, RenewTime: &at, LeaseTransitions: s.LeaseTransitions}
		}, true},
		"an operator clears the holder": {func(s *coordinationv1.LeaseSpec) { s.HolderIdentity = nil }, false},
		"an operator empties the spec":  {func(s *coordinationv1.LeaseSpec) { *s = coordinationv1.LeaseSpec{} }, false},
	} {
		e := edited(t, ours, 6, c.edit).entry()
		if !e.Tombstone || (len(e.Value) > 0) != c.vacant {
			t.Errorf("%s: %q, tombstone %v", name, e.Value, e.Tombstone)
		}
		if want := fmt.Sprintf(`"renewed":%d,`, at.UnixMilli()); c.vacant && !strings.Contains(string(e.Value), want) {
			t.Errorf("%s: %s, want %s", name, e.Value, want)
		}
	}
}

func TestValuesComeBackAsTheyWere(t *testing.T) {
	t.Parallel()
	for _, v := range []string{"", "text\n", "\x00", "\xff\xfe", `{"op":"step-down"}`, strings.Repeat("é", 1000), "\u0085"} {
		for _, tombstone := range []bool{false, true} {
			e := write(t, v, tombstone, 9, nil, noon).entry()
			if string(e.Value) != v || e.Tombstone != tombstone {
				t.Errorf("%q, %v: %q, %v", v, tombstone, e.Value, e.Tombstone)
			}
		}
	}
}

func TestRevisionsHaveToBeNumbers(t *testing.T) {
	t.Parallel()
	for _, rv := range []string{"", "0", "abc", "-1", "1.5"} {
		l := &coordinationv1.Lease{}
		l.ResourceVersion = rv
		if _, err := newLease("g", l, nil); store.Classify(err) != store.Permanent {
			t.Errorf("%q: %v", rv, err)
		}
	}
}
