//go:build unix

package guard

import (
	"encoding/json"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/runner/process"
)

// An Order goes from the candidate to the guard. The first is a start.
type Order struct {
	Op string `json:"op"` // one of the constants

	Path   string   `json:"path,omitempty"` // of the program, with opStart
	Argv   []string `json:"argv,omitempty"`
	Env    []string `json:"env,omitempty"`
	Limits Limits   `json:"limits,omitzero"`
	Ending Ending   `json:"ending,omitzero"`
	// Cgroup is the directory of the program's own cgroup, or empty, with
	// opStart.
	Cgroup string `json:"cgroup,omitempty"`
	// NeedCgroup: without the cgroup the program is not to be started.
	NeedCgroup bool `json:"need_cgroup,omitempty"`

	Until  int64 `json:"until,omitempty"`  // the end of the trust window, with opStart and opTrust
	Signal int   `json:"signal,omitempty"` // with opSignal
}

// A written order is one as it goes through the pipe. Values that the system
// takes as bytes go as bytes: JSON has text alone, and invalid UTF-8 would
// arrive altered, without an error.
type written struct {
	fields
	Path []byte   `json:"path,omitempty"`
	Argv [][]byte `json:"argv,omitempty"`
	Env  [][]byte `json:"env,omitempty"`
}

// fields are the fields of an order, without its methods. Fields of written
// take precedence.
type fields Order

// MarshalJSON implements json.Marshaler.
func (o Order) MarshalJSON() ([]byte, error) {
	return json.Marshal(written{fields(o), []byte(o.Path), convert[[]byte](o.Argv), convert[[]byte](o.Env)})
}

// UnmarshalJSON implements json.Unmarshaler.
func (o *Order) UnmarshalJSON(b []byte) error {
	var w written
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	*o = Order(w.fields)
	o.Path, o.Argv, o.Env = string(w.Path), convert[string](w.Argv), convert[string](w.Env)
	return nil
}

// convert turns strings into bytes, or bytes into strings.
func convert[To, From string | []byte](all []From) (to []To) {
	for _, one := range all {
		to = append(to, To(one))
	}
	return to
}

// The orders to the guard.
const (
	opStart  = "start"
	opTrust  = "trust"  // until then
	opSignal = "signal" // the program's process group
	opStop   = "stop"   // the program, and all below it
	opOrphan = "orphan" // as opStop: the orders have ended
)

// A report goes from the guard to the candidate. The last is an end.
type report struct {
	Event string `json:"event"` // one of the constants

	PID    int    `json:"pid,omitempty"`    // of the program, with evStarted
	Why    string `json:"why,omitempty"`    // with evStopping, one of the constants
	Code   int    `json:"code,omitempty"`   // the program's exit status, 128 + n after signal n, with evEnded
	Signal int    `json:"signal,omitempty"` // that ended it, with evEnded; with evDeaf
	Err    string `json:"err,omitempty"`    // why it could not be started, with evEnded

	Denied []process.Survivor `json:"denied,omitempty"` // with evAhead, evDenied and evDeaf
}

// The guard's reports.
const (
	evStarted  = "started"
	evStopping = "stopping"
	evDenied   = "denied" // processes were found that cannot be ended
	evAhead    = "ahead"  // processes were found that could not be ended, while the term lasts
	evDeaf     = "deaf"   // a signal does not reach some processes
	evEnded    = "ended"  // and nothing is left of it
)

// Why a program is being stopped.
const (
	whyTold   = "told"
	whyAsked  = "asked"    // a signal asked leader run to end
	whySilent = "silent"   // no renewal came in time
	whyOrphan = "orphaned" // the candidate died
	whyRest   = "rest"     // the program ended, and left others behind
)
