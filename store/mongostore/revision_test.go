package mongostore

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/seed-ff2cb582/leader/store"
)

// A clusterTime is a logical time of MongoDB: seconds, and a count of the
// writes in that second.
type clusterTime struct{ seconds, count int64 }

// eval computes an aggregation expression as MongoDB does, for a register at
// revision rev, 0 for none.
func eval(t *testing.T, expression any, rev int64, now clusterTime) int64 {
	t.Helper()
	switch e := expression.(type) {
	case int64:
		return e
	case string:
		if e == "$rev" {
			return rev
		}
	case bson.D:
		if len(e) == 1 {
			return apply(t, e[0], rev, now)
		}
	}
	t.Fatalf("an expression that is not known here: %v", expression)
	return 0
}

func apply(t *testing.T, op bson.E, rev int64, now clusterTime) int64 {
	t.Helper()
	switch op.Key {
	case "$tsSecond":
		return now.seconds
	case "$tsIncrement":
		return now.count
	}
	operands, ok := op.Value.(bson.A)
	if !ok || len(operands) != 2 {
		t.Fatalf("%v", op)
	}
	a, b := eval(t, operands[0], rev, now), eval(t, operands[1], rev, now)
	switch op.Key {
	case "$ifNull":
		return a // 0 for no revision, as the second operand is
	case "$add":
		return a + b
	case "$multiply":
		return a * b
	case "$max":
		return max(a, b)
	}
	t.Fatalf("an operator that is not known here: %v", op)
	return 0
}

// A record states its term as a JSON number of at most 2^53. With a larger
// revision each renewal is malformed, and ends its own term.
func TestRevisionsAreNumbersThatRecordsCanState(t *testing.T) {
	unix := func(year int) int64 { return time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC).Unix() }
	last := int64(0)
	for _, now := range []clusterTime{
		{unix(2026), 1}, {unix(2026), 2}, {unix(2026), 500_000}, {unix(2026) + 1, 1}, {unix(2100), 1}, {math.MaxUint32, 1},
	} {
		made := eval(t, revision(), 0, now)
		if made <= last || made >= 1<<53 {
			t.Errorf("at %+v a register is made at revision %d, after %d", now, made, last)
		}
		last = made
	}
	// Each write's revision exceeds the one that it replaces.
	for _, rev := range []int64{1, last, last + 5} {
		if next := eval(t, revision(), rev, clusterTime{unix(2026), 1}); next <= rev {
			t.Errorf("revision %d follows %d", next, rev)
		}
	}
}

func TestRevisionThatNoRecordCanStateIsAnError(t *testing.T) {
	all, err := entries([]document{{Key: "a", Rev: 7}, {Key: "b", Rev: 1 << 53}, {Key: "c d", Rev: 7}, {Key: "d", Rev: 1<<53 - 1}})
	if len(all) != 2 || all[0].Key != "a" || all[1].Key != "d" || !errors.Is(err, store.ErrPermanent) || !strings.Contains(err.Error(), `"b"`) {
		t.Errorf("%+v, %v", all, err)
	}
}
