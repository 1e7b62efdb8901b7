package objects

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-ff2cb582/leader/internal/shield"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/base"
)

// scratch is the folder of the objects on which conditions are tried. No key
// has it.
const scratch = "'check/"

// errIgnored: what the store rests on is not there.
var errIgnored = errors.New("two candidates would both win: elections need a system that obeys the conditions of writes")

// Prove finds out whether the bucket obeys conditions, by writes to a separate
// object: of some that race only one may win, and writes with a tag that was
// replaced, or of an object that is gone, must be refused. The object is
// removed at the end, for which there is a second more where ctx is done. A
// bucket that does not obey is store.ErrPermanent. left is why the object could
// not be removed, and is part of err, too, if there is one.
func (s *Store) Prove(ctx context.Context, remove func(ctx context.Context, name string) error) (left, err error) {
	ctx, cancel, err := base.Begin(ctx, s.Store)
	if err != nil {
		return nil, err
	}
	defer cancel()
	p := &proof{Bucket: s.bucket, name: fmt.Sprintf("%s%s%016x", s.prefix, scratch, rand.Uint64())}
	tag, err := p.overwrites(ctx)
	left = p.remove(ctx, remove)
	if err == nil && left == nil {
		if err = p.refused(ctx, tag, "of an object that is gone"); err != nil {
			left = p.remove(ctx, remove)
		}
	}
	if err != nil && left != nil {
		err = fmt.Errorf("%w; the object %s is left: %v", err, p.name, left) //nolint:errorlint // its class is the removal's
	}
	return left, err
}

// A proof tries conditions on one object.
type proof struct {
	Bucket
	name string
	made atomic.Bool // the object, perhaps
}

// parting is how long the removal may take after the check was given up.
const parting = time.Second

// remove removes the object, unless none was made. A check that was given up
// leaves nothing either: it is made again, with another object.
func (p *proof) remove(ctx context.Context, remove func(ctx context.Context, name string) error) error {
	if !p.made.Load() {
		return nil
	}
	if ctx.Err() == nil {
		if err := remove(ctx, p.name); err == nil || ctx.Err() == nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), parting)
	defer cancel()
	return remove(ctx, p.name)
}

// Write is the bucket's, and notes whether it may have made the object.
func (p *proof) Write(ctx context.Context, name string, content []byte, tag string) (string, error) {
	written, err := p.Bucket.Write(ctx, name, content, tag)
	if class := store.Classify(err); class == store.OK || class == store.Unknown {
		p.made.Store(true)
	}
	return written, err
}

// overwrites makes the object and replaces it. It returns the tag that it then
// has.
func (p *proof) overwrites(ctx context.Context) (string, error) {
	first, err := p.race(ctx, "")
	if err != nil {
		return "", err
	}
	second, err := p.race(ctx, first)
	if err != nil {
		return "", err
	}
	if err := p.refused(ctx, first, "that was replaced"); err != nil {
		return "", err
	}
	return second, p.refused(ctx, "", "of none")
}

// racers is how many writes race.
const racers = 4

// race sends some writes with one tag at once, and returns the winner's.
func (p *proof) race(ctx context.Context, tag string) (string, error) {
	var tags [racers]string
	var errs [racers]error
	var wg sync.WaitGroup
	for i := range racers {
		wg.Go(func() {
			shield.Call(func() { tags[i], errs[i] = p.Write(ctx, p.name, fmt.Appendf(nil, "racer %d over %q\n", i, tag), tag) },
				func(value any, stack []byte) {
					errs[i] = fmt.Errorf("%w: %s", store.ErrUnknown, shield.Text("trying the conditions of writes", value, stack))
				})
		})
	}
	wg.Wait()
	winner, wins := "", 0
	for i, err := range errs {
		switch store.Classify(err) {
		case store.OK:
			winner = tags[i]
			wins++
		case store.Permanent:
			return "", err
		default: // refused for now or permanently, or perhaps the winner
		}
	}
	switch {
	case wins > 1:
		return "", fmt.Errorf("%w: of %d writes at once with one condition %d were applied: %w", store.ErrPermanent, racers, wins, errIgnored)
	case wins == 0:
		return "", fmt.Errorf("%w: trying the conditions of writes: %v", store.ErrTransient, errors.Join(errs[:]...)) //nolint:errorlint // their classes are classes of writes
	}
	return p.shown(ctx, winner)
}

// shown reads the winner, and returns its tag, which the write may not have
// returned.
func (p *proof) shown(ctx context.Context, tag string) (string, error) {
	object, err := p.Read(ctx, p.name)
	switch {
	case err != nil:
		return "", err
	case object.Tag == "", tag != "" && object.Tag != tag:
		return "", fmt.Errorf("%w: an object that was just written has the tag %q, and %q is shown: its reads may be old: %w",
			store.ErrPermanent, tag, object.Tag, errIgnored)
	}
	return object.Tag, nil
}

// refused demands that a write with the tag is refused.
func (p *proof) refused(ctx context.Context, tag, what string) error {
	_, err := p.Write(ctx, p.name, []byte("to be refused\n"), tag)
	switch store.Classify(err) {
	case store.Conflict:
		return nil
	case store.OK:
		return fmt.Errorf("%w: a write over the tag %s was applied: %w", store.ErrPermanent, what, errIgnored)
	case store.Permanent:
		return err
	default:
		return fmt.Errorf("%w: trying the conditions of writes: %v", store.ErrTransient, err) //nolint:errorlint // its class is a write's
	}
}

// Rights finds out whether the user may read the keys, without which a
// candidate would wait for somebody else's write, and whether they may write
// theirs, by a write that must be refused: impossible is a tag that no object
// has.
func (s *Store) Rights(ctx context.Context, req store.CheckRequest, impossible string) error {
	if req.Key == "" {
		return nil
	}
	ctx, cancel, err := base.Begin(ctx, s.Store)
	if err != nil {
		return err
	}
	defer cancel()
	if err := base.Readable(ctx, s.Store, req); err != nil {
		return err
	}
	_, err = s.bucket.Write(ctx, s.Name(req.Key), nil, impossible)
	switch {
	case err == nil:
		return fmt.Errorf("%w: key %q: a write over a tag that no object has was applied: %w", store.ErrPermanent, req.Key, errIgnored)
	case errors.Is(err, store.ErrPermanent):
		return fmt.Errorf("key %q: %w", req.Key, err)
	}
	return nil // the rest shows, or passes, by itself
}
