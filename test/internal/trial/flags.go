package trial

import (
	"cmp"
	"flag"

	"github.com/seed-ff2cb582/leader/store/storetest/judge"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

var (
	short  = flag.Int("histories", 300, "how many histories without faults to record and judge")
	writes = flag.Int("writes", 40, "how many writes each of them has at least")
	seed   = flag.Uint64("seed", 0, "seed of the first history; 0: any")
	rounds = flag.Int("outlive", 1, "how often an election has to outlive each of its harms; a history meets each fault twice as often")
)

// Flags returns the options with what the command line decides.
func Flags(opts judge.Options) judge.Options {
	opts.Histories, opts.Writes, opts.Seed, opts.Rounds = *short, *writes, *seed, *rounds
	opts.Patience = cmp.Or(opts.Patience, natslab.Patience)
	return opts
}
