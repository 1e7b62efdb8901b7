package sources

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

// shared returns a source that will bring the key in addition to others.
func (s *Set) shared(key string) (*Source, error) {
	for f := range s.consumers {
		if f.names != nil && !f.names.full() {
			f.names.add(key)
			return f, nil
		}
	}
	f := &Source{names: newFilterSet(), wide: true}
	f.names.add(key)
	return s.open(f)
}

// RefusedShared reports whether the reported error is the refusal of a consumer
// with several keys. After the first such refusal each key is watched by a
// separate consumer.
func (s *Set) RefusedShared(reported error) bool {
	var shared []*Source
	subjects := []string{s.Names.Consumers() + wire.AnyName}
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
	s.alone = true
	for _, f := range shared {
		s.split(f)
	}
	s.owner.Nudge()
	return true
}

// split ends a shared source. Its keys get sources of their own.
func (s *Set) split(f *Source) {
	var freed []string
	for key := range s.served(f) {
		freed = append(freed, key)
	}
	s.close(f)
	for _, key := range freed {
		if err := s.Add(key); err != nil { // of the connection, whose return brings all sources
			s.owner.Report(err)
		}
		s.keys.Read(key)
	}
}
