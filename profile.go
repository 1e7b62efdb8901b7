package leader

import (
	"crypto/rand"
	"fmt"
	"os"
	"strings"
	"time"
)

// A Profile is a set of values for an ElectionConfig that suits one need: see
// [ElectionConfig.WithProfile]. The zero Profile is none.
type Profile uint8

// The profiles. Their values are in the chapter Tuning of docs/operate/tuning.md,
// with what they cost.
const (
	// ProfileLowLatency is for short failovers: 3.3 s after the leader's last
	// renewal if it crashes, at once if it stops. A store that cannot be
	// written to for more than 1.4 s may cost the term.
	ProfileLowLatency Profile = iota + 1
	// ProfileStable is for leaders that are costly to replace: a term survives
	// a store that cannot be written to for 11 s, such as a NATS cluster whose
	// stream loses its leader (4 to 9 s). Failover after a crash takes 22 s.
	ProfileStable
	// ProfileHighThroughput is for many elections on one connection, and for
	// many operations a second under one term: one renewal in 5 s for each, and
	// no call to the store for Do.
	ProfileHighThroughput
)

// ConfigFor returns the configuration of a candidate in a group, with the values
// of the profile: in the bucket "leaders", which is made if it does not exist,
// under an InstanceID of the host's name and a random suffix, so that each
// process has its own. Set a Logger, and whatever else differs, before you make
// the election, which validates all of it.
func ConfigFor(group string, p Profile) ElectionConfig {
	host, err := os.Hostname()
	if err != nil || !validID(host) {
		host = "candidate"
	}
	host = host[:min(len(host), 200)] // there is room for the suffix, whatever the system returns
	return ElectionConfig{
		Bucket: "leaders", BucketAutoCreate: true, Group: group, InstanceID: host + "-" + strings.ToLower(rand.Text()[:6]),
	}.WithProfile(p)
}

// WithProfile returns the configuration with its zero fields filled in for
// which the profile has a value: TTL, HeartbeatInterval, ConnectionTimeout,
// RetryConfig, DeleteOnStop, Fencing. A HeartbeatInterval that is filled in
// beside a TTL of the caller's is at most a third of it; a TTL that is filled
// in beside a HeartbeatInterval is at least three of them, in whole
// milliseconds. A false DeleteOnStop looks unset: to keep it false, reset it
// afterwards.
//
// An undefined profile changes nothing.
func (c ElectionConfig) WithProfile(p Profile) ElectionConfig {
	if p.check() != nil {
		return c
	}
	v := p.values()
	ttl, heartbeat := max(v.TTL, wholeMilliseconds(3*min(c.HeartbeatInterval, MaxTTL))), v.HeartbeatInterval
	if c.TTL > 0 {
		heartbeat = min(heartbeat, c.TTL/3)
	}
	def(&c.TTL, ttl)
	def(&c.HeartbeatInterval, heartbeat)
	def(&c.ConnectionTimeout, min(v.ConnectionTimeout, c.TTL/4))
	def(&c.RetryConfig, v.RetryConfig)
	def(&c.DeleteOnStop, v.DeleteOnStop)
	def(&c.Fencing, v.Fencing)
	return c
}

// wholeMilliseconds rounds d up: a TTL is of whole milliseconds.
func wholeMilliseconds(d time.Duration) time.Duration {
	return (d + time.Millisecond - 1).Truncate(time.Millisecond)
}

// values are the fields of a profile. DisconnectGracePeriod is in none of them:
// 0 is already the longest grace that the trust window allows.
func (p Profile) values() ElectionConfig {
	return [...]ElectionConfig{
		ProfileLowLatency: {TTL: 3 * time.Second, HeartbeatInterval: time.Second, DeleteOnStop: true},
		// With the default timeout and back-off, each 5 s at this TTL, the
		// attempt that finds the store repaired would come late.
		ProfileStable: {
			TTL: 20 * time.Second, HeartbeatInterval: 4 * time.Second,
			ConnectionTimeout: 2 * time.Second, RetryConfig: RetryConfig{MaxBackoff: time.Second},
		},
		// Each renewal proves the token. A ValidationInterval would only add
		// renewals.
		ProfileHighThroughput: {TTL: 15 * time.Second, HeartbeatInterval: 5 * time.Second, Fencing: FencingConfig{CacheToken: true}},
	}[p]
}

// The profiles' names, by which flags and files choose them.
func profileNames() []string {
	return []string{ProfileLowLatency: "low-latency", ProfileStable: "stable", ProfileHighThroughput: "high-throughput"}
}

func (p Profile) check() error {
	if p < ProfileLowLatency || p > ProfileHighThroughput {
		return fmt.Errorf("%w: %v is not a profile", ErrInvalidConfig, p)
	}
	return nil
}

// String returns the profile's name: "low-latency", "stable" or
// "high-throughput".
func (p Profile) String() string {
	if p < ProfileLowLatency || p > ProfileHighThroughput {
		return fmt.Sprintf("Profile(%d)", uint8(p))
	}
	return profileNames()[p]
}

// MarshalText returns the profile's name. The error matches ErrInvalidConfig.
func (p Profile) MarshalText() ([]byte, error) { return []byte(p.String()), p.check() }

// UnmarshalText reads a profile's name, for flag.TextVar and files. The error
// matches ErrInvalidConfig.
func (p *Profile) UnmarshalText(text []byte) error {
	for i, name := range profileNames() {
		if name != "" && name == string(text) {
			*p = Profile(i)
			return nil
		}
	}
	return fmt.Errorf("%w: %.100q is not a profile: want %q", ErrInvalidConfig, text, profileNames()[1:])
}
