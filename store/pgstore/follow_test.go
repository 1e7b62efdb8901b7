package pgstore

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader/store"
)

// A pooler that lets nothing arrive does so until a person changes something.
func TestFollowerWithoutNotificationsRetriesLessAndLess(t *testing.T) {
	db, err := sql.Open("pgx", "")
	if err != nil {
		t.Fatal(err)
	}
	_ = db.Close() // so that to listen fails at once
	synctest.Test(t, func(t *testing.T) {
		c := &client{pool: sqlPool{db}, timeout: time.Second}
		for _, want := range []struct {
			deaf        int
			least, most time.Duration
		}{
			{0, 0, 0},
			{1, 3 * time.Second, 7 * time.Second},
			{8, 3 * time.Minute, 7 * time.Minute},
			{1000, 3 * time.Minute, 7 * time.Minute},
		} {
			c.deaf = want.deaf
			began := time.Now()
			err := source{reader{c}}.Follow(t.Context(), nil)
			if took := time.Since(began); !errors.Is(err, store.ErrClosed) || took < want.least || took > want.most {
				t.Errorf("after %d times it listens within %v, want %v to %v; %v", want.deaf, took, want.least, want.most, err)
			}
		}
		// The next watch may connect another way, past a pooler.
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := (source{reader{c}}).Follow(ctx, nil); !errors.Is(err, context.Canceled) || c.deaf != 0 {
			t.Errorf("after the end of a watch it is deaf %d times; %v", c.deaf, err)
		}
	})
}
