// Package faultstore is a store behind a network that fails on demand. Each
// candidate of a simulation reaches the same registers through its own link:
//
//	f := faultstore.New(faultstore.Options{Policy: faultstore.Random(seed, faultstore.Rough())})
//	defer f.Close()
//	a, b := f.Client("a"), f.Client("b")
//	f.Partition("a")
//
// What happens to a call is its [Fate], which a [Policy] decides when the call
// is made. Methods of [Faults] act on a link or on the registers themselves.
// Whatever the policy, the promises of package store hold, but for the methods
// that break them by intent: [Faults.Rollback], [Faults.Wipe] and
// [Faults.Remake].
//
// The package is made for the virtual time of testing/synctest. It reads no
// other clock and no global randomness, so a run repeats as far as the
// scheduler repeats it. A fault counts in [Faults.Count] when it had an effect,
// not when it was decided: a simulation fails if [Faults.Unseen] names
// a kind of fault that it claims to have survived.
package faultstore
