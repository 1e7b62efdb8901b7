package bucket

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/output"
)

// Settings are how a bucket is configured, as far as elections care.
type Settings struct {
	Bucket    string  `json:"bucket"`
	Stream    string  `json:"stream"`
	Created   bool    `json:"created"`
	Replicas  int     `json:"replicas"`
	Storage   string  `json:"storage"`
	Cluster   string  `json:"cluster,omitempty"`
	MaxBytes  int64   `json:"max_bytes"`
	FirstSeq  uint64  `json:"first_sequence"`
	Republish string  `json:"republish,omitempty"`
	Rollups   bool    `json:"rollups"`
	Purges    bool    `json:"purges"`
	Deletes   bool    `json:"deletions"`
	Direct    bool    `json:"direct_gets"`
	MaxAge    float64 `json:"max_age_seconds"`
}

func settingsOf(info *jetstream.StreamInfo, created bool) Settings {
	c := info.Config
	s := Settings{
		Bucket: bucketOf(&c), Stream: c.Name, Created: created, Replicas: c.Replicas, Storage: strings.ToLower(c.Storage.String()),
		MaxBytes: c.MaxBytes, FirstSeq: c.FirstSeq, Rollups: c.AllowRollup, Purges: !c.DenyPurge, Deletes: !c.DenyDelete,
		Direct: c.AllowDirect, MaxAge: c.MaxAge.Seconds(),
	}
	if clustered(info) {
		s.Cluster = info.Cluster.Name
	}
	if c.RePublish != nil {
		s.Republish = c.RePublish.Destination
	}
	return s
}

func (s Settings) result() output.Result {
	yesNo := func(b bool) string { return map[bool]string{true: "allowed", false: "refused"}[b] }
	limit, age := "none", "none"
	if s.MaxBytes > 0 {
		limit = strconv.FormatInt(s.MaxBytes, 10) + " bytes"
	}
	if s.MaxAge > 0 {
		age = time.Duration(s.MaxAge * float64(time.Second)).String()
	}
	republish := s.Republish
	if republish == "" {
		republish = "nowhere"
	}
	return output.Result{
		Value: s, Names: []string{s.Bucket},
		Head: []string{"SETTING", "VALUE", "WHY"},
		Rows: [][]string{
			{"bucket", s.Bucket, "one serves any number of groups"},
			{"replicas", fmt.Sprint(s.Replicas), "three survive the loss of one server"},
			{"storage", s.Storage, "memory forgets leaders at a restart"},
			{"expiry", age, "those who watch judge a lease, and no server's wall clock"},
			{"size limit", limit, "a full bucket refuses renewals"},
			{"rollups", yesNo(s.Rollups), "one header would erase every key"},
			{"purges", yesNo(s.Purges), "likewise"},
			{"deletions", yesNo(s.Deletes), "a record would read as an earlier one"},
			{"direct gets", yesNo(s.Direct), "reads need a right for one key, and not for all"},
			{"republished to", republish, "watches cost the servers nothing"},
			{"first sequence", strconv.FormatUint(s.FirstSeq, 10), "terms continue above the terms of a deleted bucket"},
		},
	}
}
