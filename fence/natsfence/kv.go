package natsfence

import (
	"context"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/fence"
	"github.com/seed-ff2cb582/leader/store"
)

// GuardPrefix begins the keys of the guards of a bucket; the group's name
// follows.
const GuardPrefix = "_fence."

// A KV writes to a key-value bucket in one term. It may be used concurrently.
// Reads go to the bucket itself.
type KV struct {
	guard  *guard
	prefix string // of the subjects to which values are published
}

// OpenKV raises the group's guard in a bucket to the term, unless the guard has
// a newer one already. The bucket may be the election's own or any other. The
// package documentation lists the errors. The call ends with ctx, or after 5
// seconds if that has no deadline; the opened KV does not depend on ctx.
func OpenKV(ctx context.Context, js jetstream.JetStream, bucket, group string, t leader.Term) (*KV, error) {
	key := GuardPrefix + group
	if !store.ValidKey(group) || !store.ValidKey(key) {
		return nil, fmt.Errorf("%w: %q is not the name of a group", fence.ErrInvalid, group)
	}
	stored := "$KV." + bucket + "."
	prefix := apiPrefix(js) + stored
	g, err := open(ctx, js, "KV_"+bucket, stored+key, prefix+key, t)
	if err != nil {
		return nil, err
	}
	return &KV{g, prefix}, nil
}

// apiPrefix is the prefix of subjects that travel to another JetStream domain
// or account (nats.go, jetstream/kv.go, useJSPfx).
func apiPrefix(js jetstream.JetStream) string {
	o := js.Options()
	switch {
	case o.Domain != "":
		return "$JS." + o.Domain + ".API."
	case o.APIPrefix == "" || o.APIPrefix == jetstream.DefaultAPIPrefix:
		return ""
	default:
		return strings.TrimSuffix(o.APIPrefix, ".") + "."
	}
}

// Warnings are full sentences on what weakens the guard in this bucket, each
// with what and why.
func (k *KV) Warnings() []string { return k.guard.warnings }

// Put stores a value under a key if no newer term has started in this bucket,
// and returns its revision. It does not compare the key's revision: the leader
// is the only one who writes.
//
// The call ends with ctx, or after 5 seconds if that has no deadline.
func (k *KV) Put(ctx context.Context, key string, value []byte) (uint64, error) {
	return k.set(ctx, key, value, nil)
}

// Delete marks a key as deleted, as Put stores a value.
func (k *KV) Delete(ctx context.Context, key string) error {
	_, err := k.set(ctx, key, nil, nats.Header{"KV-Operation": {"DEL"}})
	return err
}

func (k *KV) set(ctx context.Context, key string, value []byte, h nats.Header) (uint64, error) {
	if !store.ValidKey(key) || strings.HasPrefix(key, GuardPrefix) {
		return 0, fmt.Errorf("%w: key %q", fence.ErrInvalid, key)
	}
	ack, err := k.guard.write(ctx, &nats.Msg{Subject: k.prefix + key, Data: value, Header: h})
	if err != nil {
		return 0, err
	}
	return ack.Sequence, nil
}
