package leaderkube

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/seed-ff2cb582/leader"
)

// A record is the part of resourcelock.LeaderElectionRecord that means
// something here, in its JSON.
type record struct {
	HolderIdentity       string     `json:"holderIdentity"`
	LeaseDurationSeconds int        `json:"leaseDurationSeconds"`
	AcquireTime          *time.Time `json:"acquireTime"`
	RenewTime            *time.Time `json:"renewTime"`
	LeaderTransitions    int        `json:"leaderTransitions"`
}

// instant is a time as Kubernetes writes it, in whole seconds.
func instant(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC().Truncate(time.Second)
	return &t
}

// into writes the record as client-go's type.
func into[Record any](r record) (*Record, []byte, error) {
	raw, err := json.Marshal(r)
	if err != nil {
		return nil, nil, err
	}
	out := new(Record)
	if err := json.Unmarshal(raw, out); err != nil {
		return nil, nil, err
	}
	return out, raw, nil
}

// from reads client-go's type.
func from[Record any](in Record) (r record, err error) {
	raw, err := json.Marshal(in)
	if err != nil {
		return record{}, err
	}
	err = json.Unmarshal(raw, &r)
	return r, err
}

// checkRecord refuses a type that does not have the fields of client-go's
// record.
func checkRecord[Record any]() error {
	sample := record{HolderIdentity: "a", LeaseDurationSeconds: 2, LeaderTransitions: 3}
	out, _, err := into[Record](sample)
	if err == nil {
		var back record
		back, err = from(*out)
		back.AcquireTime, back.RenewTime = nil, nil // whatever it takes for none
		if err == nil && back == sample {
			return nil
		}
	}
	return &leader.ConfigError{Field: "Record", Value: fmt.Sprintf("%T", out), Rule: "must be resourcelock.LeaderElectionRecord of client-go"}
}
