package consulstore

import (
	"context"
	"fmt"
	"net/http/httptrace"
	"sync/atomic"

	"github.com/hashicorp/consul/api"

	"github.com/seed-ff2cb582/leader/store"
)

// Swap implements [base.System] by one transaction of one operation, which is
// sent at most once.
func (s source) Swap(ctx context.Context, w store.Write) (uint64, error) {
	leave, err := s.enter(ctx)
	if err != nil {
		return 0, fmt.Errorf("key %q: %w", w.Key, err)
	}
	defer leave()
	var a attempt
	var answer api.TxnResponse
	operation := &api.TxnOp{KV: &api.KVTxnOp{Verb: api.KVCAS, Key: s.names.of(w.Key), Value: w.Value, Flags: flags(w), Index: w.Expected}}
	// Client.Txn would hide the answer's status.
	_, err = s.consul.Raw().Write("/v1/txn", api.TxnOps{operation}, &answer, (&api.WriteOptions{}).WithContext(a.traced(ctx)))
	if err != nil {
		return 0, s.writeError(ctx, w, &a, err)
	}
	return s.applied(w, answer)
}

// applied takes the revision out of the answer to a transaction that was
// applied.
func (s source) applied(w store.Write, answer api.TxnResponse) (uint64, error) {
	if len(answer.Results) != 1 || answer.Results[0] == nil || answer.Results[0].KV == nil {
		return 0, fmt.Errorf("%w: key %q: the answer does not contain the write's index", store.ErrUnknown, w.Key)
	}
	rev := answer.Results[0].KV.ModifyIndex
	if rev <= w.Expected {
		// Somebody has written the same with the same flags, by hand. Nothing
		// was changed then.
		return 0, fmt.Errorf("%w: key %q: the register holds exactly this already", store.ErrTransient, w.Key)
	}
	return rev, nil
}

// An attempt watches one write on its way out. The client's own transport never
// repeats one of which something was written (net/http, shouldRetryRequest:
// methods other than GET and the like). A caller may have put a transport in
// its place that does: what is refused after a repetition may have been refused
// for what the first has done.
type attempt struct {
	asked     atomic.Bool  // the transport has looked for a connection, and so reports its steps
	connected atomic.Bool  // it had one: something may have left
	written   atomic.Int32 // how often the whole write has left
}

// traced makes the transport report its steps.
func (a *attempt) traced(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { a.asked.Store(true) },
		GotConn: func(httptrace.GotConnInfo) { a.connected.Store(true) },
		WroteRequest: func(info httptrace.WroteRequestInfo) {
			if info.Err == nil {
				a.written.Add(1)
			}
		},
	})
}

// never reports whether the write provably never left.
func (a *attempt) never() bool { return a.asked.Load() && !a.connected.Load() }

// repeated reports whether the write may have left more than once.
func (a *attempt) repeated() bool { return a.written.Load() > 1 }
