package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/seed-ff2cb582/leader/test/internal/overlap"
)

// A visit is a call at an instance.
type visit struct {
	id     string // of the instance
	number int    // of the call
	// arrived is when the call was there, before anybody asked whether the
	// instance leads.
	arrived int64
	// began is when its handler began, 0 if none did.
	began int64
}

// A journal is what an instance notes of its visits, in a file, since what is
// written there outlives the process. It asks the library nothing.
type journal struct {
	id   string
	file *os.File
}

func openJournal(dir, id string) (*journal, error) {
	f, err := os.OpenFile(filepath.Join(dir, id), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	return &journal{id, f}, err
}

type visitKey struct{}

// arrive begins a visit. It runs before the code that refuses calls.
func arrive(ctx context.Context) (context.Context, *visit) {
	v := &visit{arrived: overlap.Now()}
	return context.WithValue(ctx, visitKey{}, v), v
}

// run notes that the handler of a call runs. It does so before the handler
// answers, so that no call is answered whose run is not noted.
func (j *journal) run(ctx context.Context, number int) {
	v, _ := ctx.Value(visitKey{}).(*visit)
	v.number, v.began = number, overlap.Now()
	j.note(v)
}

// leave ends a visit.
func (j *journal) leave(v *visit) {
	if v.began == 0 {
		j.note(v)
	}
}

// note writes a line by one write: the process may be killed at any time.
func (j *journal) note(v *visit) {
	if _, err := fmt.Fprintf(j.file, "%d %d %d\n", v.number, v.arrived, v.began); err != nil {
		panic(err) // a run that nobody knows of makes the verdict worthless
	}
}

// readJournals reads what all instances have noted.
func readJournals(dir string) (all []visit, err error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(bytes.TrimSpace(text))) {
			v := visit{id: f.Name()}
			if _, err := fmt.Sscan(line, &v.number, &v.arrived, &v.began); err != nil {
				return nil, fmt.Errorf("the journal of %s: %q: %w", v.id, line, err)
			}
			all = append(all, v)
		}
	}
	return all, nil
}

// A promotion is the beginning of a term, at some instant from From to To: the
// one is read before the instance may lead, the other when it does.
type promotion struct {
	ID   string `json:"id"`
	From int64  `json:"from"`
	To   int64  `json:"to"`
}

// deposedBy returns the promotion that had deposed the instance of a run.
// Another's term had begun when the call arrived, and the instance's own had
// not begun again when the handler did. It is nil without such a promotion.
//
// A call that was let in before the instance was frozen, and whose handler
// began after, is not disputed: nobody can keep those two instants together.
func deposedBy(v visit, promotions []promotion) *promotion {
	var other *promotion // the last one that had certainly started
	for i, p := range promotions {
		if p.ID != v.id && p.To <= v.arrived && (other == nil || p.To > other.To) {
			other = &promotions[i]
		}
	}
	if other == nil {
		return nil
	}
	for _, p := range promotions {
		if p.ID == v.id && p.To > other.To && p.From <= v.began {
			return nil
		}
	}
	return other
}

// ledBefore reports whether the instance of a run had started to lead at all.
func ledBefore(v visit, promotions []promotion) bool {
	for _, p := range promotions {
		if p.ID == v.id && p.From <= v.began {
			return true
		}
	}
	return false
}
