package leader

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/seed-ff2cb582/leader/internal/engine"
	"github.com/seed-ff2cb582/leader/internal/leadership"
	"github.com/seed-ff2cb582/leader/internal/machine"
	"github.com/seed-ff2cb582/leader/internal/preference"
	"github.com/seed-ff2cb582/leader/internal/record"
	"github.com/seed-ff2cb582/leader/store"
)

// MaxTTL is the longest lease, for everyone: one hour. It is one constant and
// no setting, since it is also how long a candidate at most believes a
// record that states a longer one: believing less than an honest leader's TTL
// would be unsafe.
const MaxTTL = leadership.MaxTTL

// MinTTL is the shortest lease. Below it the scheduling of a busy machine alone
// costs terms.
const MinTTL = 50 * time.Millisecond

// DefaultClockDrift is how far the rates of clocks are assumed to differ by
// default: 10 %. chrony may slew a clock by 8.3 % (maxslewrate).
const DefaultClockDrift = leadership.DefaultDrift

// MaxConnectionParams is how many bytes of ElectionConfig.ConnectionParams a
// record has room for, so that every store takes it.
const MaxConnectionParams = 8 << 10

const maxIDLen = 256

// maxReplicas is how many replicas NATS allows (nats-server,
// StreamMaxReplicas).
const maxReplicas = 5

// An ElectionConfig describes one candidate in one election. The zero values of
// the optional fields are good defaults. Candidates of one group should agree
// on TTL and must agree on ClockDrift.
type ElectionConfig struct {
	// Bucket is the NATS KV bucket: letters, digits, dashes and underscores. It
	// is required with NATS and unused by NewElectionWithStore.
	Bucket string
	// Group names the election, and is the record's key: see store.ValidKey for
	// the alphabet. Names that begin with "_ctl.", "_ran." or "_drain." belong to
	// the keys beside the record. Required.
	Group string
	// InstanceID names this candidate, unlike any other of the group. 1 to 256
	// bytes of printable text. Required.
	InstanceID string
	// TTL is the length of the lease: how long nobody else leads after a leader
	// fell silent. MinTTL to MaxTTL, in whole milliseconds, and at least 3 ×
	// HeartbeatInterval. Required.
	TTL time.Duration
	// HeartbeatInterval is the time from one renewal to the next. Required. The
	// first renewal of a term leaves up to a 32nd of it earlier, so that the
	// elections of a process renew together, which costs it less.
	HeartbeatInterval time.Duration

	// Priority: higher is preferred. The preferred candidate goes first at a
	// vacancy and when a lease has run out: each of the others waits up to 50
	// ms for every candidate that is preferred to it.
	Priority int
	// AllowPriorityTakeover lets this candidate ask a leader with a lower
	// priority to hand over to it, and, as the leader, do so when it is asked:
	// its work stops first, as with Transfer. No leader is forced. A candidate
	// neither asks nor hands over before the leader has served MinTenure. It
	// needs the right to write the group's control record (key _ctl.<group>).
	AllowPriorityTakeover bool
	// MinTenure is how long a leader leads at least before it is taken over, so
	// that candidates that come and go do not make leadership flap. Default: 10
	// × TTL.
	MinTenure time.Duration
	// Version, optional, is the version of this program, as dotted numbers:
	// "1.12.0", "v2.0.0-rc.1". It is written into the record. At most 64
	// letters, digits and .+-_.
	Version string
	// VersionPolicy, if set, prefers candidates by Version first and by
	// Priority second. All candidates of a group should have the same policy.
	VersionPolicy VersionPolicy
	// Campaign slows down campaigns.
	Campaign CampaignConfig
	// Logger receives what happens. Nil: silent.
	Logger *slog.Logger
	// Address, optional, is where clients reach this candidate when it leads.
	Address string
	// ConnectionParams, optional, is what clients need in addition to Address
	// to connect to this candidate when it leads: bytes that the election does
	// not interpret, such as a gRPC service config. At most
	// MaxConnectionParams. They are written with each renewal: the fewer the
	// better. Everybody who may read the bucket sees them.
	ConnectionParams []byte
	// Meta, optional, is written into the record, for people and observers.
	Meta map[string]string

	// ConnectionTimeout bounds each call to the store. Default: TTL/4.
	ConnectionTimeout time.Duration
	// DisconnectGracePeriod is how long a leader keeps its term after the store
	// reported its connection lost. The trust window ends the term in any case.
	// With a grace period this candidate does not campaign while the connection
	// is reported lost, since it could not keep what it wins. Default 0: a lost
	// connection by itself ends nothing and keeps nobody from campaigning.
	DisconnectGracePeriod time.Duration

	// Fencing is how Do and the background validate the token.
	Fencing FencingConfig

	// HealthChecker, optional, is asked each HealthCheckInterval whether this
	// instance is fit to lead. After MaxConsecutiveFailures failures in a row a
	// leader stops its work and releases, and a follower does not campaign,
	// until a check succeeds. A check that panics or takes longer than
	// HealthCheckTimeout has failed. Checks delay no renewal.
	HealthChecker HealthChecker
	// HealthCheckInterval is the time from one check to the next. Default:
	// HeartbeatInterval.
	HealthCheckInterval time.Duration
	// HealthCheckTimeout is how long one check may take. Default, and at most:
	// HealthCheckInterval.
	HealthCheckTimeout time.Duration
	// MaxConsecutiveFailures: default 3.
	MaxConsecutiveFailures int

	// RetryConfig paces the repetition of writes that failed.
	RetryConfig RetryConfig

	// BucketAutoCreate makes the bucket if there is none, in the way that is
	// safest: see natsstore.EnsureBucket.
	BucketAutoCreate bool
	// Replicas is how many servers keep a bucket that BucketAutoCreate makes: 1
	// to 5. Start returns an error if a single server without a cluster cannot
	// keep as many; if servers of a cluster are down, the election waits for
	// them. An existing bucket is not changed, and Start warns if it has
	// another number. Default: 3, or 1 on a single server.
	Replicas int
	// BucketMaxBytes bounds the size of a bucket that BucketAutoCreate makes,
	// in bytes; 0 means no bound. Some accounts require one. A bucket that is
	// full refuses renewals, and a record takes some hundred bytes.
	BucketMaxBytes int64
	// JetStreamDomain is the JetStream domain in which the bucket lives. Across
	// leaf nodes it should be given: the same bucket name in two domains is two
	// elections.
	JetStreamDomain string

	// DeleteOnStop makes Stop release the record, so that another candidate
	// leads at once. Without it the lease runs out.
	DeleteOnStop bool

	// ClockDrift is how far the rate of any candidate's clock may be off, as a
	// fraction. More than 0 and at most 0.3; default DefaultClockDrift. All
	// candidates of a group must use the same.
	ClockDrift float64
	// ForeignTTL is the lease length to assume for a record that does not
	// contain it: one that another program wrote there, or somebody by hand.
	// From TTL to MaxTTL. It should be the longest of that program's leases and
	// of the TTLs of the group: a leader by a longer lease may find another
	// leading beside it. Default: the age at which the bucket drops records, if
	// it does, or else TTL, with a warning when such a record is met. Where the
	// bucket drops records, a lease is never assumed to be longer than that
	// age.
	ForeignTTL time.Duration
	// AcquireGrace is the cool-down: hold the record, but lead only after TTL ×
	// (1 + ClockDrift). It keeps two leaders apart even where the store forgets
	// what it acknowledged. Default: GraceAuto.
	AcquireGrace AcquireGrace
	// DemoteTimeout is how long the release waits for OnPromote and OnDemote to
	// return after a term ended. Default: the larger of TTL and 5 seconds.
	DemoteTimeout time.Duration
	// Hooks report what happens to metrics and traces.
	Hooks Hooks
}

// FencingConfig is how the token is validated. The zero value caches it.
type FencingConfig struct {
	// ValidationInterval is how often a leader validates its token in the
	// background, by a renewal that the store acknowledges. 0: the heartbeat
	// alone does.
	ValidationInterval time.Duration
	// ValidateOnCriticalOps makes Do validate the token with the store before
	// every operation.
	ValidateOnCriticalOps bool
	// CacheToken lets Do rely on the latest acknowledged renewal if it is not
	// older than ValidationInterval (the trust window, if that is 0). It is the
	// default and needs not be set: Do does so unless ValidateOnCriticalOps is
	// set, which is the opposite and wins.
	CacheToken bool
}

// RetryConfig paces the repetition of writes. Zero fields take the defaults.
type RetryConfig struct {
	// MaxAttempts bounds the attempts of one write in a row. A renewal that
	// fails so often ends the term; an acquisition then waits for MaxBackoff
	// and goes on. 0, or more than 250: no bound; a leader tries for as long as
	// its trust window is open.
	MaxAttempts int
	// InitialBackoff is the delay after the first failure. Default: TTL/50, at
	// most 50 ms.
	InitialBackoff time.Duration
	// MaxBackoff is the longest delay. Default: TTL/4, at most 5 s. A leader
	// waits no longer than half of what is left of its trust window.
	MaxBackoff time.Duration
	// BackoffMultiplier is the growth from one delay to the next. Default 2.
	BackoffMultiplier float64
	// Jitter varies each delay by ± this fraction. Default 0.1.
	Jitter float64
}

// A VersionPolicy determines which versions of the program are preferred as
// leaders, for rollouts: while both run, the older one leads until the last of
// it is gone (PreferOlder), or the newer one takes over as soon as it is there
// (PreferNewer). Kubernetes' coordinated leader election has PreferOlder as
// OldestEmulationVersion.
type VersionPolicy uint8

// The version policies.
const (
	// PreferAny makes no difference between versions.
	PreferAny = VersionPolicy(preference.Any)
	// PreferOlder prefers the lowest version.
	PreferOlder = VersionPolicy(preference.Older)
	// PreferNewer prefers the highest version.
	PreferNewer = VersionPolicy(preference.Newer)
)

// String shows a policy as configurations name it.
func (p VersionPolicy) String() string { return preference.Policy(p).String() }

// A CampaignConfig slows down campaigns. The zero value does not: a vacancy is
// then claimed at once.
type CampaignConfig struct {
	// Splay bounds a random delay before the first claim after Start, which
	// spreads the campaigns of programs that are started together. It ends when
	// another leads.
	Splay time.Duration
	// Backoff is how much longer a candidate that was not the last to lead
	// leaves a vacancy or an expired lease alone. It doubles with each term of
	// another, up to MaxBackoff, and is forgotten with the candidate's next own
	// term. So leadership comes back to the last leader after short troubles,
	// and failover takes that much longer.
	Backoff time.Duration
	// MaxBackoff is the longest backoff. Default: Backoff, which then does not
	// grow.
	MaxBackoff time.Duration
}

// AcquireGrace controls whether a new leader cools down before it is promoted.
type AcquireGrace uint8

// The settings of AcquireGrace.
const (
	// GraceAuto cools down where the store may forget: memory storage,
	// asynchronous persistence, server-side expiry. In a store that only drops
	// records, as one with server-side expiry, a claim of what a leader left to
	// others needs no cool-down. It also waits out the lease of a leader from
	// before the store was made: nobody leads before the store is TTL × (1 +
	// ClockDrift) old.
	GraceAuto = AcquireGrace(engine.GraceAuto)
	// GraceOn always cools down.
	GraceOn = AcquireGrace(engine.GraceOn)
	// GraceOff never does, unless the store is caught forgetting, nor does it
	// wait in a store that is new.
	GraceOff = AcquireGrace(engine.GraceOff)
)

// A HealthChecker reports whether an instance is fit to lead.
type HealthChecker interface {
	// Check returns true if the instance is healthy. It must respect ctx, which
	// ends after HealthCheckTimeout and when the election is asked to stop.
	// Stop waits for a check that is under way, so that the check does not
	// outlive what it looks at; it waits for a check that ignores ctx no longer
	// than until its HealthCheckTimeout has passed.
	Check(ctx context.Context) bool
}

func (c ElectionConfig) withDefaults() ElectionConfig {
	ttl := max(c.TTL, 0) // a wrong TTL is one fault, and not one of each field that follows from it
	def(&c.ConnectionTimeout, ttl/4)
	def(&c.DemoteTimeout, max(ttl, 5*time.Second))
	def(&c.MaxConsecutiveFailures, 3)
	def(&c.HealthCheckInterval, max(c.HeartbeatInterval, 0))
	def(&c.HealthCheckTimeout, c.HealthCheckInterval)
	def(&c.MinTenure, min(10*min(ttl, MaxTTL), engine.Forever))
	def(&c.Campaign.MaxBackoff, c.Campaign.Backoff)
	def(&c.ClockDrift, DefaultClockDrift)
	def(&c.RetryConfig.InitialBackoff, min(ttl/50, 50*time.Millisecond))
	def(&c.RetryConfig.MaxBackoff, max(c.RetryConfig.InitialBackoff, min(ttl/4, 5*time.Second)))
	def(&c.RetryConfig.BackoffMultiplier, 2)
	def(&c.RetryConfig.Jitter, 0.1)
	def(&c.Fencing.CacheToken, !c.Fencing.ValidateOnCriticalOps)
	return c
}

func def[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Validate reports every rule that the configuration breaks, as one error that
// matches ErrInvalidConfig, or nil. NewElection calls it, and also requires a
// bucket.
func (c ElectionConfig) Validate() error { return c.validate(false, "", true) }

// validate checks the configuration together with the caller's other argument.
func (c ElectionConfig) validate(onNATS bool, what string, given bool) error {
	var v validator
	v.check(given, what, nil, "must not be nil")
	c = c.withDefaults()
	c.validateNames(&v)
	c.validateTimes(&v)
	c.validateRetry(&v)
	c.validateStanding(&v)
	c.validateRecord(&v)
	v.check(c.Replicas >= 0 && c.Replicas <= maxReplicas, "Replicas", c.Replicas, "must be from 1 to 5, or 0 for the default")
	v.check(c.BucketMaxBytes >= 0, "BucketMaxBytes", c.BucketMaxBytes, "must not be negative")
	v.check(c.Bucket != "" || !onNATS, "Bucket", c.Bucket, "is required")
	v.check(c.Bucket == "" || len(c.Bucket) <= maxBucketLen && bucketName.MatchString(c.Bucket), "Bucket", c.Bucket,
		"must be 1 to 255 letters, digits, dashes or underscores")
	return v.err()
}

func (c ElectionConfig) validateNames(v *validator) {
	v.check(c.Group != "", "Group", c.Group, "is required")
	v.check(c.Group == "" || store.ValidKey(c.Group), "Group", c.Group,
		"must be 1 to 256 letters, digits or -_=/. without a dot at an end or two in a row")
	v.check(!strings.HasPrefix(c.Group, record.ControlKey("")), "Group", c.Group,
		`must not begin with "_ctl.", the prefix of control records`)
	v.check(!strings.HasPrefix(c.Group, record.RanPrefix), "Group", c.Group,
		`must not begin with "_ran.", which the keys of runs contain`)
	v.check(!strings.HasPrefix(c.Group, record.DrainPrefix), "Group", c.Group,
		`must not begin with "_drain.", which the keys of drained instances contain`)
	v.check(len(c.Group) <= store.MaxKey-len(record.ControlKey("")), "Group", c.Group,
		"must leave room for the prefix of its control record: at most 251 bytes")
	v.check(c.InstanceID != "", "InstanceID", c.InstanceID, "is required")
	v.check(validID(c.InstanceID), "InstanceID", c.InstanceID,
		"must be at most 256 bytes of printable UTF-8")
}

func (c ElectionConfig) validateTimes(v *validator) {
	v.check(c.TTL >= MinTTL && c.TTL <= MaxTTL, "TTL", c.TTL, fmt.Sprintf("must be from %v to %v", MinTTL, MaxTTL))
	v.check(c.TTL%time.Millisecond == 0, "TTL", c.TTL, "must be a whole number of milliseconds, the record's unit")
	v.check(c.HeartbeatInterval > 0, "HeartbeatInterval", c.HeartbeatInterval, "is required and must be positive")
	// Not 3*HeartbeatInterval, which may overflow.
	v.check(c.HeartbeatInterval <= c.TTL/3, "TTL", c.TTL,
		fmt.Sprintf("must be at least 3 × HeartbeatInterval (%v)", c.HeartbeatInterval))
	v.check(c.ConnectionTimeout >= 0 && c.ConnectionTimeout <= max(c.TTL, 0), "ConnectionTimeout", c.ConnectionTimeout,
		"must not be negative, nor longer than TTL")
	v.check(c.ForeignTTL == 0 || c.ForeignTTL >= c.TTL && c.ForeignTTL <= MaxTTL, "ForeignTTL", c.ForeignTTL,
		fmt.Sprintf("must be 0, or from TTL (%v) to %v", c.TTL, MaxTTL))
	v.notNegative("DisconnectGracePeriod", c.DisconnectGracePeriod)
	v.notNegative("DemoteTimeout", c.DemoteTimeout)
	v.notNegative("Fencing.ValidationInterval", c.Fencing.ValidationInterval)
	v.check(c.ClockDrift > 0 && c.ClockDrift <= leadership.MaxDrift, "ClockDrift", c.ClockDrift, "must be more than 0 and at most 0.3")
	v.notNegative("HealthCheckInterval", c.HealthCheckInterval)
	v.check(c.HealthCheckTimeout >= 0 && c.HealthCheckTimeout <= max(c.HealthCheckInterval, 0), "HealthCheckTimeout", c.HealthCheckTimeout,
		fmt.Sprintf("must not be negative, nor longer than HealthCheckInterval (%v)", c.HealthCheckInterval))
	v.check(c.MaxConsecutiveFailures > 0, "MaxConsecutiveFailures", c.MaxConsecutiveFailures, "must not be negative")
	v.check(c.AcquireGrace <= GraceOff, "AcquireGrace", c.AcquireGrace, "must be GraceAuto, GraceOn or GraceOff")
}

func (c ElectionConfig) validateStanding(v *validator) {
	v.check(record.ValidVersion(c.Version), "Version", c.Version, "must be at most 64 letters, digits and .+-_")
	v.check(c.VersionPolicy <= PreferNewer, "VersionPolicy", c.VersionPolicy, "must be PreferAny, PreferOlder or PreferNewer")
	v.check(c.VersionPolicy == PreferAny || preference.Parsable(c.Version), "Version", c.Version,
		"must be dotted numbers, such as 1.12.0, since VersionPolicy compares them")
	v.notNegative("MinTenure", c.MinTenure)
	v.notNegative("Campaign.Splay", c.Campaign.Splay)
	v.notNegative("Campaign.Backoff", c.Campaign.Backoff)
	v.check(c.Campaign.MaxBackoff >= c.Campaign.Backoff, "Campaign.MaxBackoff", c.Campaign.MaxBackoff,
		fmt.Sprintf("must be at least Backoff (%v)", c.Campaign.Backoff))
}

func (c ElectionConfig) validateRetry(v *validator) {
	r := c.RetryConfig
	v.check(r.MaxAttempts >= 0, "RetryConfig.MaxAttempts", r.MaxAttempts, "must not be negative")
	v.notNegative("RetryConfig.InitialBackoff", r.InitialBackoff)
	v.check(r.MaxBackoff >= r.InitialBackoff, "RetryConfig.MaxBackoff", r.MaxBackoff,
		fmt.Sprintf("must be at least InitialBackoff (%v)", r.InitialBackoff))
	v.check(r.BackoffMultiplier >= 1 && !math.IsInf(r.BackoffMultiplier, 0), "RetryConfig.BackoffMultiplier", r.BackoffMultiplier,
		"must be a number of at least 1")
	v.check(r.Jitter >= 0 && r.Jitter <= 1, "RetryConfig.Jitter", r.Jitter, "must be from 0 to 1")
}

// validateRecord refuses what would only fail at the first write: a record that
// no store takes.
func (c ElectionConfig) validateRecord(v *validator) {
	if n := len(c.ConnectionParams); n > MaxConnectionParams {
		v.check(false, "ConnectionParams", bytesOf(n), fmt.Sprintf("must be at most %d bytes (MaxConnectionParams)", MaxConnectionParams))
		c.ConnectionParams = nil // one fault, and not another of the record
	}
	widest := record.Standing{Priority: math.MinInt, Version: strings.Repeat("0", record.MaxVersion), Age: preference.MaxAge}
	settings := c.engine()
	r := record.Of(settings.Protocol(false).Template(), record.About{
		Meta: c.Meta, Address: c.Address, Params: paramsOf(c.ConnectionParams), Version: c.Version, Drift: 1.0 / 3,
		Standings: slices.Repeat([]record.Standing{widest}, record.MaxStandings), Transitions: 1 << 53,
		Acquired: record.MaxMoment, Renewed: record.MaxMoment,
	})
	_, err := r.Encode()
	if err == nil {
		return
	}
	meta := 0
	for k, v := range c.Meta {
		meta += len(k) + len(v)
	}
	// Report one field: the one that takes most of the room.
	rule, params := "makes the record too large: "+err.Error(), base64.StdEncoding.EncodedLen(len(c.ConnectionParams))
	switch max(len(c.Address), params, meta) {
	case meta:
		v.check(false, "Meta", fmt.Sprintf("(%d entries)", len(c.Meta)), rule)
	case params:
		v.check(false, "ConnectionParams", bytesOf(len(c.ConnectionParams)), rule)
	default:
		v.check(false, "Address", bytesOf(len(c.Address)), rule)
	}
}

// bytesOf replaces a value in an error that is too long to be shown.
func bytesOf(n int) string { return fmt.Sprintf("(%d bytes)", n) }

var bucketName = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)

// maxBucketLen is beside the pattern: {1,255} in it takes every program that
// imports this package milliseconds at its start.
const maxBucketLen = 255

func validID(s string) bool {
	return len(s) <= maxIDLen && utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

// engine returns the candidate with these settings, whose defaults are filled
// in.
func (c ElectionConfig) engine() engine.Config {
	e := engine.Config{
		Group: c.Group, InstanceID: c.InstanceID, TTL: c.TTL, HeartbeatInterval: c.HeartbeatInterval,
		ConnectionTimeout: c.ConnectionTimeout, DemoteTimeout: c.DemoteTimeout,
		ClockDrift: c.ClockDrift, Settings: c.core(), Grace: engine.Grace(c.AcquireGrace), DeleteOnStop: c.DeleteOnStop,
		Standing:      preference.Standing{Priority: c.Priority, Version: c.Version},
		VersionPolicy: preference.Policy(c.VersionPolicy), AllowTakeover: c.AllowPriorityTakeover, MinTenure: c.MinTenure,
		ValidateEvery: c.Fencing.ValidationInterval, ValidateAlways: c.Fencing.ValidateOnCriticalOps,
		CheckInterval: c.HealthCheckInterval, CheckTimeout: c.HealthCheckTimeout, MaxFailures: c.MaxConsecutiveFailures,
		// The caller may change theirs while we write.
		Address: text(c.Address), Params: paramsOf(bytes.Clone(c.ConnectionParams)), Meta: texts(c.Meta),
		Logger: c.Logger, Hooks: c.Hooks.engine(), Loss: lossOf,
	}
	if c.HealthChecker != nil {
		e.Check = c.HealthChecker.Check
	}
	return e
}

// text returns a string as others read it in a record, which is JSON: with
// U+FFFD for each byte that is not UTF-8. A leader's status must equal what
// others read: otherwise a comparison of the two would find a change each time.
func text(s string) string { return string([]rune(s)) }

// texts is a copy of a map, likewise.
func texts(m map[string]string) map[string]string {
	read := maps.Clone(m)
	for k, v := range m {
		delete(read, k)
		read[text(k)] = text(v)
	}
	return read
}

// core returns the settings that the core alone obeys.
func (c ElectionConfig) core() machine.Settings {
	bounded := func(d time.Duration) time.Duration { return min(d, engine.Forever) }
	r := c.RetryConfig
	return machine.Settings{
		ForeignTTL: c.ForeignTTL, DisconnectGrace: bounded(c.DisconnectGracePeriod),
		Retry: machine.Retry{
			MaxAttempts: r.MaxAttempts, Initial: bounded(r.InitialBackoff), Max: bounded(r.MaxBackoff),
			Multiplier: r.BackoffMultiplier, Jitter: r.Jitter,
		},
		Splay: bounded(c.Campaign.Splay), Backoff: bounded(c.Campaign.Backoff), MaxBackoff: bounded(c.Campaign.MaxBackoff),
	}
}

// paramsOf returns parameters as records hold them, without a copy.
func paramsOf(b []byte) *record.Params {
	if len(b) == 0 {
		return nil
	}
	p := record.Params(b)
	return &p
}
