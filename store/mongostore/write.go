package mongostore

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/seed-ff2cb582/leader/store"
)

// A document is a register: {_id: key, rev: long, val: binary, dead: bool}. A
// document without a revision is not a register.
type document struct {
	Key  string `bson:"_id"`
	Rev  int64  `bson:"rev"`
	Val  []byte `bson:"val"`
	Dead bool   `bson:"dead"`
}

func (d document) entry() store.Entry {
	return store.Entry{Key: d.Key, Revision: uint64(d.Rev), Value: d.Val, Tombstone: d.Dead}
}

// limit is above all revisions: records state them as JSON numbers, and many
// readers lose digits beyond 2^53.
const limit = 1 << 53

// perSecond is how many writes of a second have a revision of their own. No
// cluster takes a million writes in one, and as many seconds fit below limit as
// MongoDB counts, up to the year 2106.
const perSecond = int64(1) << 20

// revision is what a write makes of the register's revision: one more, and at
// least the cluster's logical time, which is seconds and a count of the writes
// in the second. That time advances with every write, so that it never lags
// behind a revision, and a register that was deleted and is made again gets a
// larger one. It goes with the data at a failover, and takes no harm from
// clocks that go back.
func revision() bson.D {
	op := func(name string, operands ...any) bson.D { return bson.D{{Key: name, Value: bson.A(operands)}} }
	next := op("$add", op("$ifNull", "$rev", int64(0)), int64(1))
	seconds, count := bson.D{{Key: "$tsSecond", Value: "$$CLUSTER_TIME"}}, bson.D{{Key: "$tsIncrement", Value: "$$CLUSTER_TIME"}}
	return op("$max", next, op("$add", op("$multiply", seconds, perSecond), count))
}

// swap is the command of a compare-and-swap: a conditional update or, for a
// register that is to be unknown, an upsert that a document in its place turns
// into a duplicate key. The driver repeats no command that it is given whole,
// and adds no concern to it.
func (s *Store) swap(w store.Write) bson.D {
	var query, value any = int64(w.Expected), w.Value
	if w.Expected == 0 {
		query = bson.D{{Key: "$exists", Value: false}}
	}
	if w.Value == nil {
		value = []byte{}
	}
	literal := func(v any) bson.D { return bson.D{{Key: "$literal", Value: v}} }
	return bson.D{
		{Key: "findAndModify", Value: s.opts.Collection},
		{Key: "query", Value: bson.D{{Key: "_id", Value: w.Key}, {Key: "rev", Value: query}}},
		{Key: "update", Value: bson.A{bson.D{{Key: "$set", Value: bson.D{
			{Key: "rev", Value: revision()}, {Key: "val", Value: literal(value)}, {Key: "dead", Value: literal(w.Tombstone)},
		}}}}},
		{Key: "upsert", Value: w.Expected == 0},
		{Key: "new", Value: true},
		{Key: "fields", Value: bson.D{{Key: "rev", Value: 1}}},
		{Key: "writeConcern", Value: bson.D{{Key: "w", Value: "majority"}, {Key: "j", Value: true}}},
	}
}

// Swap implements [base.System] by one findAndModify, which is sent at most once.
func (src source) Swap(ctx context.Context, w store.Write) (uint64, error) {
	var answer struct {
		Value *struct {
			Rev int64 `bson:"rev"`
		} `bson:"value"`
		Last struct {
			N *int32 `bson:"n"`
		} `bson:"lastErrorObject"`
	}
	if err := src.s.db.RunCommand(ctx, src.s.swap(w)).Decode(&answer); err != nil {
		return 0, writeError(ctx, w, err)
	}
	switch {
	case answer.Value != nil && answer.Value.Rev > 0 && uint64(answer.Value.Rev) > w.Expected:
		return uint64(answer.Value.Rev), nil
	case answer.Value == nil && answer.Last.N != nil && *answer.Last.N == 0:
		return 0, fmt.Errorf("%w: key %q: expected revision %d", store.ErrConflict, w.Key, w.Expected)
	default:
		return 0, fmt.Errorf("%w: key %q: the answer does not contain the written revision", store.ErrUnknown, w.Key)
	}
}
