package core

import "hash/fnv"

// Rendezvous returns which of the names has a key: the one with the highest
// weight for it (Thaler and Ravishankar, 1998). A name that is added takes keys
// from the others and moves none between them; one that leaves gives up its own
// alone. Without names it returns "".
func Rendezvous(key string, names []string) (chosen string) {
	var most uint64
	for _, name := range names {
		if w := weight(key, name); chosen == "" || w > most || w == most && name < chosen {
			chosen, most = name, w
		}
	}
	return chosen
}

func weight(key, name string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	_, _ = h.Write([]byte{0})
	_, _ = h.Write([]byte(key))
	// FNV leaves similar strings with similar sums: the finalizer of
	// MurmurHash3 spreads them.
	x := h.Sum64()
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
