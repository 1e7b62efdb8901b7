package faultstore

import (
	"context"
	"time"

	"github.com/seed-ff2cb582/leader/store"
)

// An AsyncClient is a Client that is a [store.AsyncWriter] too.
type AsyncClient struct{ *Client }

// CompareAndSwapAsync implements [store.AsyncWriter].
func (c AsyncClient) CompareAndSwapAsync(deadline time.Time, w store.Write, done func(uint64, error)) store.Pending {
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	go func() {
		defer cancel()
		done(c.CompareAndSwap(ctx, w))
	}()
	return pending(cancel)
}

type pending context.CancelFunc

func (p pending) Cancel() { p() }
