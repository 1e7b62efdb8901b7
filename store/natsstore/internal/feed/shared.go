package feed

import "github.com/seed-ff2cb582/leader/store/natsstore/internal/wire"

// ownConsumers is how many keys of a store have a consumer each, before the
// others share some. A user who may make consumers of named keys alone, as few
// rights as a candidate needs, is thus never refused one for two groups.
const ownConsumers = 4

func (s *Set) shares() bool {
	if s.republished != "" || s.Whole || s.alone {
		return false
	}
	own := 0
	for f := range s.consumers {
		if f.names == nil && !f.wide {
			own++
		}
	}
	return own >= ownConsumers
}

// shared returns a feed that will bring the key, besides others.
func (s *Set) shared(key string) (*Feed, error) {
	for f := range s.consumers {
		if f.names != nil && !f.names.full() {
			f.names.add(key)
			return f, nil
		}
	}
	f := &Feed{names: newFilterSet(), wide: true}
	f.names.add(key)
	return s.open(f)
}

// RefusedShared reports whether the reported error is the refusal of a consumer
// that names several keys. The first has every key watched by a consumer of its
// own.
func (s *Set) RefusedShared(reported error) bool {
	if s.alone {
		return wire.Violation(reported, wire.Publish, s.refused...) != nil
	}
	var shared []*Feed
	var subjects []string
	for f := range s.consumers {
		if f.names == nil {
			continue
		}
		shared = append(shared, f)
		if f.name != "" {
			subjects = append(subjects, s.Names.Consumers()+f.name)
		}
	}
	if wire.Violation(reported, wire.Publish, subjects...) == nil {
		return false
	}
	s.alone, s.refused = true, subjects
	for _, f := range shared {
		s.split(f)
	}
	s.owner.Nudge()
	return true
}

// split ends a shared feed. Its keys get feeds of their own.
func (s *Set) split(f *Feed) {
	var freed []string
	for key := range s.served(f) {
		freed = append(freed, key)
	}
	s.close(f)
	for _, key := range freed {
		if err := s.Add(key); err != nil { // of the connection, whose return brings all feeds
			s.owner.Report(err)
		}
		s.keys.Read(key)
	}
}
