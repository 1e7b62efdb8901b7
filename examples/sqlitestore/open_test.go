package sqlitestore_test

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/seed-ff2cb582/leader/examples/sqlitestore"
	"github.com/seed-ff2cb582/leader/store"
)

// The first candidates begin together, as copies of a program do, and the file
// is made by one of them.
func TestANewFileMayBeOpenedByManyAtOnce(t *testing.T) {
	for range 20 {
		file := filepath.Join(t.TempDir(), "leader.db")
		var all sync.WaitGroup
		for who := range 8 {
			all.Go(func() {
				s, err := sqlitestore.Open(t.Context(), file)
				if err != nil {
					t.Error(err)
					return
				}
				for n := range 5 {
					_, err := s.CompareAndSwap(t.Context(), store.Write{Key: fmt.Sprintf("%d-%d", who, n), Value: []byte("v")})
					if err != nil {
						t.Error(err)
					}
				}
				_ = s.Close()
			})
		}
		all.Wait()
	}
}
