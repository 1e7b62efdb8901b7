package natsstore_test

import (
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/store/storetest"
	"github.com/seed-ff2cb582/leader/store/storetest/judge"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

func TestOutcomesWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, write writer) {
		judge.Run(t, func(tb testing.TB) judge.Subject {
			srv := natslab.Start(tb)
			at := func(tb testing.TB, bucket, addr string, opts ...nats.Option) store.Store {
				tb.Helper()
				return write(tb, open(tb, natslab.Connect(tb, "nats://"+addr, opts...), bucket, natsstore.Options{}))
			}
			return judge.Subject{
				Addrs: []string{srv.Addr()},
				Registers: func(tb testing.TB) judge.Registers {
					bucket := newBucket()
					ensure(tb, srv.Connect(tb), natsstore.BucketConfig{Bucket: bucket})
					return judge.Registers{
						Harness: storetest.Harness{Open: func(tb testing.TB) store.Store { return at(tb, bucket, srv.Addr()) }},
						At:      func(tb testing.TB, addr string) store.Store { return at(tb, bucket, addr) },
						Unreached: func(tb testing.TB, addr string) store.Store {
							return at(tb, bucket, addr, nats.RetryOnFailedConnect(true))
						},
					}
				},
			}
		}, judge.Options{
			Cases: []judge.Case{judge.LostAnswers, judge.Unsent, judge.Invalid, judge.Frozen},
			Caps:  storetest.Caps{Patience: natslab.Patience},
		})
	})
}
