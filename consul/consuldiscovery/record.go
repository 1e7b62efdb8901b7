package consuldiscovery

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/seed-ff2cb582/leader/discovery"
)

// The names of the metadata of a service.
const (
	metaGroup       = "leader-group"
	metaInstance    = "leader-instance"
	metaTerm        = "leader-term"
	metaCorrelation = "leader-correlation"
)

// A record is the value of a group's key.
type record struct {
	Entry    *discovery.Entry `json:"entry,omitempty"`
	LastTerm uint64           `json:"last_term"`
}

func (r record) bytes() ([]byte, error) {
	value, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("consuldiscovery: %w", err)
	}
	return value, nil
}

// readRecord reports whether the value is a record of the group.
func readRecord(value []byte, group string) (r record, ok bool) {
	err := json.Unmarshal(value, &r)
	if err != nil || r.Entry != nil && (r.Entry.Group != group || r.Entry.IsZero()) {
		return record{}, false
	}
	return r, true
}

func (a *Announcer) key(group string) string { return a.opts.Prefix + group }

// node is the name of the candidate's node in the catalog: letters, digits and
// hyphens, at most 63 of them after the prefix, as DNS requires. A hash
// distinguishes names that would read alike.
func (a *Announcer) node(e discovery.Entry) string {
	const room = 40
	name := strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
			return r
		default:
			return '-'
		}
	}, e.Group)
	sum := sha256.Sum256([]byte(e.Group + "\x00" + e.Instance))
	return a.opts.NodePrefix + name[:min(len(name), room)] + "-" + hex.EncodeToString(sum[:6])
}

// session is the name by which the check knows the session. It contains the
// term and this announcer's name, so that an earlier session, or another
// announcer's, which ends later, changes nothing.
func (a *Announcer) session(e discovery.Entry) string { return a.sessionsOf(e) + a.name }

// sessionsOf is what the names of all sessions of a term begin with.
func (a *Announcer) sessionsOf(e discovery.Entry) string {
	return fmt.Sprintf("%s %d/%s ", a.node(e), e.Term, e.Correlation)
}
