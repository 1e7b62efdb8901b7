package etcdstore

import (
	"context"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/seed-ff2cb582/leader/store"
)

// Swap implements [base.System] by one transaction, and by another where there
// is a foreign key beside the register. Each is sent at most once.
func (s source) Swap(ctx context.Context, w store.Write) (uint64, error) {
	answer, failure := s.once(ctx, s.transaction(w, s.alone(w)))
	if failure != nil {
		return 0, s.writeError(ctx, w, failure)
	}
	if answer.Succeeded {
		return uint64(answer.Header.Revision), nil
	}
	found := s.found(w.Key, answer)
	if found.Revision != w.Expected {
		return 0, conflict(w, found)
	}
	return s.besides(ctx, w, found)
}

// besides sends a write again that was refused because of another tool's key
// beside the register: a live key over a tombstone, or an unrelated key.
func (s source) besides(ctx context.Context, w store.Write, found store.Entry) (uint64, error) {
	answer, failure := s.once(ctx, s.transaction(w, s.exactly(found)))
	if failure != nil {
		return 0, s.writeError(ctx, w, failure)
	}
	if !answer.Succeeded {
		return 0, conflict(w, s.found(w.Key, answer))
	}
	return uint64(answer.Header.Revision), nil
}

func conflict(w store.Write, found store.Entry) error {
	return fmt.Errorf("%w: key %q: expected revision %d, found %d", store.ErrConflict, w.Key, w.Expected, found.Revision)
}

// found is the state of the register when the transaction was refused.
func (s source) found(key string, refusal *pb.TxnResponse) store.Entry {
	var kvs []*mvccpb.KeyValue
	for _, r := range refusal.Responses {
		kvs = append(kvs, r.GetResponseRange().GetKvs()...)
	}
	return s.only(key, kvs)
}

// transaction is the write as etcd takes it: on these conditions, else it reads
// the state of the register.
func (s source) transaction(w store.Write, conditions []*pb.Compare) *pb.TxnRequest {
	put, drop := s.names.live(w.Key), s.names.deleted(w.Key)
	if w.Tombstone {
		put, drop = drop, put
	}
	return &pb.TxnRequest{
		Compare: conditions,
		Success: []*pb.RequestOp{
			{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: []byte(put), Value: w.Value}}},
			{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: &pb.DeleteRangeRequest{Key: []byte(drop)}}},
		},
		Failure: []*pb.RequestOp{{Request: &pb.RequestOp_RequestRange{RequestRange: s.span(w.Key)}}},
	}
}

// alone demands that every key in the register's range has the expected
// revision. Either one of the register's two keys exists, or for revision 0
// neither does: etcd takes a range of no keys for a key that does not exist.
func (s source) alone(w store.Write) []*pb.Compare {
	from, to := s.names.span(w.Key)
	c := stands(from, w.Expected)
	c.RangeEnd = []byte(to)
	return []*pb.Compare{c}
}

// exactly demands that the register is unchanged since it was found.
func (s source) exactly(found store.Entry) []*pb.Compare {
	live, deleted := s.names.live(found.Key), s.names.deleted(found.Key)
	switch {
	case found.Revision == 0:
		return []*pb.Compare{stands(live, 0), stands(deleted, 0)}
	case found.Tombstone:
		return []*pb.Compare{stands(live, 0), stands(deleted, found.Revision)}
	default:
		return []*pb.Compare{stands(live, found.Revision)}
	}
}

// stands compares the revision of a key's last write, which is 0 for a missing
// key.
func stands(key string, revision uint64) *pb.Compare {
	return &pb.Compare{
		Key: []byte(key), Target: pb.Compare_MOD, Result: pb.Compare_EQUAL,
		TargetUnion: &pb.Compare_ModRevision{ModRevision: int64(revision)},
	}
}
