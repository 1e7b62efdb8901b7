package demo

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// A Fault is something done to the election.
type Fault string

// The faults.
const (
	Crash   Fault = "crash"   // kill the leader's process; another joins later
	Freeze  Fault = "freeze"  // stop the leader's process for 2 × TTL
	Cut     Fault = "cut"     // let nothing pass on the leader's network for 2 × TTL
	Resign  Fault = "resign"  // ask the leader to resign
	Delete  Fault = "delete"  // delete the group's key, as nats kv del does
	Restart Fault = "restart" // stop the server and start it again
	Kill    Fault = "kill"    // stop a member of the quorum
	Return  Fault = "return"  // start the member again that was killed
)

// faults lists them in the order in which they are shown.
func faults() []Fault {
	return []Fault{Crash, Freeze, Cut, Resign, Delete, Restart, Kill, Return}
}

// ofServers reports whether the fault hits a server of the demo and no worker.
func (f Fault) ofServers() bool { return f == Restart || f == Kill || f == Return }

// A Step is one fault of a script.
type Step struct {
	At    time.Duration // since the start; later if nobody leads then
	Fault Fault
}

// String returns the step as ParseScript reads it.
func (s Step) String() string { return fmt.Sprintf("%v %s", s.At, s.Fault) }

// A Script is a sequence of faults, in order of time.
type Script []Step

// String returns the script as ParseScript reads it.
func (s Script) String() string {
	parts := make([]string, len(s))
	for i, step := range s {
		parts[i] = step.String()
	}
	return strings.Join(parts, "; ")
}

// End is when the last step is due.
func (s Script) End() time.Duration {
	if len(s) == 0 {
		return 0
	}
	return s[len(s)-1].At
}

// defaultScript plays each fault once, with time between them for what follows
// from it. The last steps are those that its servers allow.
// A crash, a freeze and a cut take a lease and more until another leads, and
// the latter two last for 2 × TTL themselves; nobody waits for long after the
// others.
func defaultScript(ttl time.Duration, last ...Fault) Script {
	s := Script{
		{At: ttl, Fault: Crash},
		{At: 4 * ttl, Fault: Freeze},
		{At: 7 * ttl, Fault: Cut},
		{At: 10 * ttl, Fault: Resign},
		{At: 11 * ttl, Fault: Delete},
	}
	for _, f := range last {
		s = append(s, Step{At: s.End() + ttl, Fault: f})
	}
	return s
}

// ParseScript reads steps like "2s crash; 6s freeze", separated by semicolons.
// The error names every part that cannot be read. Steps must be in order, since
// one that comes first and is due last would hold up the rest without a word.
func ParseScript(text string) (Script, error) {
	var s Script
	var errs []error
	for part := range strings.SplitSeq(text, ";") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		step, err := parseStep(part)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("--script: %q: %w", part, err))
		case step.At < s.End():
			errs = append(errs, fmt.Errorf("--script: %q: comes after a step that is later (%v)", part, s.End()))
		default:
			s = append(s, step)
		}
	}
	if len(s) == 0 && len(errs) == 0 {
		errs = append(errs, errors.New(`--script: there is no step; write steps like "2s crash; 6s freeze"`))
	}
	return s, errors.Join(errs...)
}

// parseStep reads one step. Its errors show a correct one.
func parseStep(part string) (Step, error) {
	words := strings.Fields(part)
	if len(words) != 2 {
		return Step{}, errors.New(`must be a time and a fault, like "2s crash"`)
	}
	at, err := time.ParseDuration(words[0])
	if err != nil || at < 0 {
		return Step{}, fmt.Errorf("%q is no time since the start, like 2s or 1m30s", words[0])
	}
	for _, f := range faults() {
		if words[1] == string(f) {
			return Step{At: at, Fault: f}, nil
		}
	}
	return Step{}, fmt.Errorf("%q is no fault; there are %s", words[1], faultNames())
}

// faultNames lists the faults in a sentence.
func faultNames() string {
	names := make([]string, 0, len(faults()))
	for _, f := range faults() {
		names = append(names, string(f))
	}
	return strings.Join(names, ", ")
}
