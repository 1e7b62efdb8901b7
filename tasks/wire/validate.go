package wire

import (
	"fmt"
	"math"
	"time"
	"unicode/utf8"
)

// The limits of records and messages.
const (
	// MaxPayload bounds a payload and a result, in bytes.
	MaxPayload = 64 << 10
	// MaxTimeout bounds the time of an attempt, and the delay after one.
	MaxTimeout = 365 * 24 * time.Hour
	// MaxName bounds an ID of a task, the name and the run of a worker, a label
	// and a key, in bytes.
	MaxName = 128
	// MaxCapacity bounds the capacity of a worker.
	MaxCapacity = 4096
	// MaxLabels is how many labels a worker may have.
	MaxLabels = 64
	// MaxAttempt is the largest number of an attempt.
	MaxAttempt = math.MaxInt32
)

// ValidName reports whether a task, a worker or a label may have the name: 1 to
// [MaxName] letters, digits and -_=/. A dot is not allowed, so that a name is
// one token of a NATS subject.
func ValidName(name string) bool {
	for i := range len(name) {
		switch c := name[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '=', c == '/':
		default:
			return false
		}
	}
	return name != "" && len(name) <= MaxName
}

// Validate returns an error that names the first field that breaks its rule,
// nil for a record that a dispatcher may act on. A store calls it for each
// record that it decodes. The Term has no rule: only the election knows which
// terms there are.
func (r *Record) Validate() error {
	switch r.State {
	case Queued, Assigned, Done, Failed:
	default:
		return fmt.Errorf("state %.200q: must be queued, assigned, done or failed", r.State)
	}
	switch {
	case len(r.Payload) > MaxPayload:
		return tooLong("payload", len(r.Payload), MaxPayload)
	case r.Timeout <= 0 || r.Timeout > MaxTimeout:
		return badTime("timeout", r.Timeout, 1)
	case r.Backoff < 0 || r.Backoff > MaxTimeout:
		return badTime("backoff", r.Backoff, 0)
	case r.MaxAttempts < 1:
		return fmt.Errorf("max_attempts %d: must be at least 1", r.MaxAttempts)
	case r.Attempt < 0 || r.Attempt > MaxAttempt:
		return fmt.Errorf("attempt %d: must be 0 to %d", r.Attempt, MaxAttempt)
	case r.Failures < 0 || r.Failures > r.Attempt:
		return fmt.Errorf("failures %d: must be 0 to attempt, which is %d", r.Failures, r.Attempt)
	case len(r.Result) > MaxPayload:
		return tooLong("result", len(r.Result), MaxPayload)
	case len(r.Error) > MaxPayload:
		return tooLong("error", len(r.Error), MaxPayload)
	}
	if !r.Submitted.IsZero() {
		var room [len("2006-01-02T15:04:05.999999999+07:00")]byte
		// A time that can be read and not written would make every write fail.
		if _, err := r.Submitted.AppendText(room[:0]); err != nil {
			return fmt.Errorf("submitted: %w", err)
		}
	}
	if err := r.To.validate(); err != nil {
		return err
	}
	return r.validateHolder()
}

// validateHolder checks who has the task.
func (r *Record) validateHolder() error {
	switch {
	case r.Worker != "" && !ValidName(r.Worker):
		return badName("worker", r.Worker)
	case r.Run != "" && !validText(r.Run):
		return badText("run", r.Run)
	case r.State == Assigned && (r.Worker == "" || r.Run == "" || r.Attempt == 0):
		return fmt.Errorf("worker %q, run %q, attempt %d: an assigned task has all three", r.Worker, r.Run, r.Attempt)
	case r.State == Queued && r.Attempt == MaxAttempt:
		return fmt.Errorf("attempt %d: a queued task needs a further one", r.Attempt)
	}
	return nil
}

func (t *Target) validate() error {
	switch {
	case t.Worker != "" && !ValidName(t.Worker):
		return badName("to.worker", t.Worker)
	case t.Label != "" && !ValidName(t.Label):
		return badName("to.label", t.Label)
	case t.Key != "" && !validText(t.Key):
		return badText("to.key", t.Key)
	}
	return nil
}

func (r Ref) validate() error {
	switch {
	case !ValidName(r.ID):
		return badName("id", r.ID)
	case r.Attempt < 1 || r.Attempt > MaxAttempt:
		return fmt.Errorf("attempt %d of task %q: must be 1 to %d", r.Attempt, r.ID, MaxAttempt)
	}
	return nil
}

// Validate returns an error that names the first field that breaks its rule,
// nil for a message that a worker may act on. A worker calls it for each
// message, so a transport need not.
func (m *ToWorker) Validate() error {
	if m.Run != "" && !validText(m.Run) {
		return badText("run", m.Run)
	}
	for i := range m.Orders {
		o := &m.Orders[i]
		switch err := o.validate(); {
		case err != nil:
			return fmt.Errorf("order: %w", err)
		case o.Timeout <= 0 || o.Timeout > MaxTimeout:
			return fmt.Errorf("order of task %q: %w", o.ID, badTime("timeout", o.Timeout, 1))
		case len(o.Payload) > MaxPayload:
			return fmt.Errorf("order of task %q: %w", o.ID, tooLong("payload", len(o.Payload), MaxPayload))
		}
	}
	if err := validateAll("revoked", m.Revoked); err != nil {
		return err
	}
	return validateAll("settled", m.Settled)
}

// Validate returns an error that names the first field that breaks its rule,
// nil for a message that a dispatcher may act on. A dispatcher calls it for
// each message, so a transport need not. Seen has no rule, as the Term of a
// record has none. A result or an error that is too long makes a report a
// failure, and not the message invalid.
func (m *FromWorker) Validate() error {
	switch {
	case !ValidName(m.Worker):
		return badName("worker", m.Worker)
	case !validText(m.Run):
		return badText("run", m.Run)
	}
	for i := range m.Refused {
		r := &m.Refused[i]
		if err := r.validate(); err != nil {
			return fmt.Errorf("refused: %w", err)
		}
		if !validText(string(r.Why)) {
			return badText("why", string(r.Why))
		}
	}
	for i := range m.Reports {
		if err := m.Reports[i].validate(); err != nil {
			return fmt.Errorf("report: %w", err)
		}
	}
	if m.Presence == nil {
		return nil
	}
	return m.Presence.validate()
}

func (p *Presence) validate() error {
	switch {
	case len(p.Labels) > MaxLabels:
		return fmt.Errorf("%d labels: must be at most %d", len(p.Labels), MaxLabels)
	case p.Capacity < 0 || p.Capacity > MaxCapacity:
		return fmt.Errorf("capacity %d: must be 0 to %d", p.Capacity, MaxCapacity)
	case p.Lease < 0:
		return fmt.Errorf("lease %v: must not be negative", p.Lease)
	}
	for _, label := range p.Labels {
		if !ValidName(label) {
			return badName("label", label)
		}
	}
	return validateAll("held", p.Held)
}

func validateAll(field string, refs []Ref) error {
	for _, ref := range refs {
		if err := ref.validate(); err != nil {
			return fmt.Errorf("%s: %w", field, err)
		}
	}
	return nil
}

func validText(s string) bool { return s != "" && len(s) <= MaxName && utf8.ValidString(s) }

func badText(field, s string) error {
	return fmt.Errorf("%s %.200q: must be 1 to %d bytes of UTF-8", field, s, MaxName)
}

func badName(field, s string) error {
	return fmt.Errorf("%s %.200q: must be 1 to %d letters, digits and -_=/", field, s, MaxName)
}

func badTime(field string, d, least time.Duration) error {
	return fmt.Errorf("%s %v: must be %v to %v", field, d, least, MaxTimeout)
}

func tooLong(field string, n, most int) error {
	return fmt.Errorf("%s of %d bytes: must have at most %d", field, n, most)
}
