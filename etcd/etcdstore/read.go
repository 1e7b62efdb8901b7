package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/seed-ff2cb582/leader/store"
)

// get reads a register by a linearizable read: the result is not older than the
// call. It returns etcd's own errors.
func (c *client) get(ctx context.Context, key string) (store.Entry, error) {
	answer, err := c.kv.Range(ctx, c.span(key))
	c.hurry(err)
	if err != nil {
		return store.Entry{}, err
	}
	return c.only(key, answer.Kvs), nil
}

// members reads the list of members, by a majority. It needs no right to any
// key.
func (c *client) members(ctx context.Context) ([]*pb.Member, error) {
	answer, err := c.cluster.MemberList(ctx, &pb.MemberListRequest{Linearizable: true})
	c.hurry(err)
	if err != nil {
		return nil, c.readError(ctx, "the list of members", err)
	}
	return answer.Members, nil
}

// hurry has the client try to connect now, if it is not connected. By itself it
// waits for up to two minutes between two attempts, unless it was configured
// otherwise. Elections pace their calls that fail, and the Feed its own, and so
// the attempts.
func (c *client) hurry(err error) {
	if status.Code(err) == codes.Unavailable {
		c.etcd.ActiveConnection().ResetConnectBackoff()
	}
}

func (c *client) span(key string) *pb.RangeRequest {
	from, to := c.names.span(key)
	return &pb.RangeRequest{Key: []byte(from), RangeEnd: []byte(to)}
}

// only is the register's state by what its range holds.
func (c *client) only(key string, kvs []*mvccpb.KeyValue) store.Entry {
	for _, e := range c.names.entries(kvs) {
		if e.Key == key {
			return e
		}
	}
	return store.Entry{Key: key}
}

// A source reads for the watches.
type source struct{ *client }

// many is how many registers are read in one transaction: etcd takes 128
// operations by default (--max-txn-ops).
const many = 100

// Read implements [feed.Source].
func (s source) Read(ctx context.Context, keys []string) ([]store.Entry, error) {
	switch len(keys) {
	case 0:
		_, err := s.members(ctx)
		return nil, err
	case 1:
		return s.readEach(ctx, keys)
	}
	var all []store.Entry
	var failures []error
	for some := range slices.Chunk(keys, many) {
		entries, err := s.readSome(ctx, some)
		all, failures = append(all, entries...), append(failures, err)
	}
	return all, errors.Join(failures...)
}

func (s source) readSome(ctx context.Context, keys []string) ([]store.Entry, error) {
	request := &pb.TxnRequest{}
	for _, key := range keys {
		request.Success = append(request.Success, &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: s.span(key)}})
	}
	answer, err := s.kv.Txn(ctx, request)
	s.hurry(err)
	if err != nil {
		err = s.readError(ctx, fmt.Sprintf("keys %q", keys), err)
		if errors.Is(err, store.ErrPermanent) {
			return s.readEach(ctx, keys)
		}
		return nil, err
	}
	all := make([]store.Entry, 0, len(keys))
	for i, r := range answer.Responses {
		all = append(all, s.only(keys[i], r.GetResponseRange().GetKvs()))
	}
	return all, nil
}

// readEach reads the registers one by one: those that may be read, where one is
// refused.
func (s source) readEach(ctx context.Context, keys []string) (all []store.Entry, err error) {
	var failures []error
	for _, key := range keys {
		e, err := s.get(ctx, key)
		if err != nil {
			failures = append(failures, s.readError(ctx, fmt.Sprintf("key %q", key), err))
			continue
		}
		all = append(all, e)
	}
	return all, errors.Join(failures...)
}

// page is how many keys are listed in one answer.
const page = 1000

// List implements [feed.Source]. All pages are of one revision of etcd.
func (s source) List(ctx context.Context, pattern string) ([]store.Entry, error) {
	from, to := s.names.wide(pattern)
	request := &pb.RangeRequest{Key: []byte(from), RangeEnd: []byte(to), Limit: page}
	var kvs []*mvccpb.KeyValue
	for {
		answer, err := s.kv.Range(ctx, request)
		s.hurry(err)
		if err != nil {
			return nil, s.readError(ctx, fmt.Sprintf("pattern %q", pattern), err)
		}
		kvs = append(kvs, answer.Kvs...)
		if !answer.More || len(answer.Kvs) == 0 {
			return s.names.entries(kvs), nil
		}
		request.Revision = answer.Header.Revision
		request.Key = append(slices.Clone(kvs[len(kvs)-1].Key), 0)
	}
}
