package feed

import "github.com/seed-ff2cb582/leader/store/natsstore/internal/wire"

// Denied returns the reported error if it denies what the feed needs to bring
// anything, but for a consumer of several keys: see [Set.RefusedShared]. That
// another feed is denied says nothing of this one.
func (s *Set) Denied(f *Feed, reported error) error {
	switch {
	case f == nil || f.names != nil:
		return nil
	case f.consumer:
		return s.Names.ConsumerViolation(reported, f.filter)
	default:
		return wire.Violation(reported, wire.Subscribe, f.Subject())
	}
}

// KeyDenied is [Set.Denied] of the key's feed.
func (s *Set) KeyDenied(key string, reported error) error { return s.Denied(s.byKey[key], reported) }

// AskAgain asks once more for what the feed needs, if it may have been denied
// already, and reports whether it did. The connection shows the latest denial
// alone, so another one may hide the feed's, until this brings it back.
func (s *Set) AskAgain(f *Feed) bool {
	switch {
	case f == nil:
		return false
	case !f.consumer:
		s.owner.ListenInVain(f.Subject())
	case f.making:
		s.owner.AskInVain(f.asked)
	default:
		return false
	}
	return true
}

// AskAgainFor is [Set.AskAgain] of the key's feed.
func (s *Set) AskAgainFor(key string) bool { return s.AskAgain(s.byKey[key]) }
