package arena

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// MakeBucket makes the bucket if it is not there, and returns an error until it
// takes writes.
func (a *Arena) MakeBucket(ctx context.Context) error {
	storage := jetstream.FileStorage
	if a.shape.Memory {
		storage = jetstream.MemoryStorage
	}
	var err error
	if a.expiry.MaxAge == 0 {
		err = natsstore.EnsureBucket(ctx, a.js, natsstore.BucketConfig{Bucket: Bucket, Replicas: a.shape.Nodes, Storage: storage})
	} else {
		err = a.makeExpiring(ctx, storage)
	}
	if err != nil {
		return err
	}
	return a.Probe(ctx)
}

// markerLife is for how long a marker stays: the shortest that a server takes
// (measured: it refuses less than a second).
const markerLife = time.Second

// makeExpiring makes a bucket as `nats kv add --ttl` does, and with a first
// sequence as docs/operate/bucket.md demands of buckets that others make: terms
// are revisions, and go on above those of a bucket that was deleted. The library
// makes no bucket whose records expire, and a bucket that the library made
// cannot be given markers later (the server does not take back that purges are
// denied).
func (a *Arena) makeExpiring(ctx context.Context, storage jetstream.StorageType) error {
	cfg := jetstream.StreamConfig{
		Name: stream, Subjects: []string{stored + ">"}, Replicas: a.shape.Nodes, Storage: storage, MaxAge: a.expiry.MaxAge,
		MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew, DenyDelete: true, AllowRollup: true, AllowDirect: true,
		FirstSeq:  uint64(time.Now().UnixMicro()),
		RePublish: &jetstream.RePublish{Source: stored + ">", Destination: republic + ">"},
	}
	if a.expiry.Markers {
		cfg.AllowMsgTTL, cfg.SubjectDeleteMarkerTTL = true, markerLife
	}
	_, err := a.js.CreateStream(ctx, cfg)
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return nil // the candidates may have made it
	}
	return err
}

// Probe writes to the bucket: it takes writes if the error is nil.
func (a *Arena) Probe(ctx context.Context) error { return Write(ctx, a.js) }

// Write writes to the bucket, and to nothing that a candidate reads.
func Write(ctx context.Context, js jetstream.JetStream) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, err := js.Publish(ctx, probeKey, nil, jetstream.WithRetryAttempts(0))
	return err
}

// DeleteBucket deletes the bucket and all that it knows.
func (a *Arena) DeleteBucket(ctx context.Context) error { return a.js.DeleteStream(ctx, stream) }

// StreamLeader returns the node that leads the bucket's stream according to the
// servers.
func (a *Arena) StreamLeader(ctx context.Context) (*natslab.Process, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	s, err := a.js.Stream(ctx, stream)
	if err != nil {
		return nil, err
	}
	if c := s.CachedInfo().Cluster; c != nil {
		for _, p := range a.Servers.Nodes {
			if p.Name == c.Leader {
				return p, nil
			}
		}
	}
	return nil, errors.New("the stream has no leader")
}

// StepDown asks the leader of the bucket's stream to hand over to another
// server.
func (a *Arena) StepDown(ctx context.Context) {
	_, _ = a.admin.RequestWithContext(ctx, "$JS.API.STREAM.LEADER.STEPDOWN."+stream, nil) // it may have none now
}

// State returns the state of the bucket's stream as the servers report it.
func (a *Arena) State(ctx context.Context) (jetstream.StreamState, error) {
	s, err := a.js.Stream(ctx, stream)
	if err != nil {
		return jetstream.StreamState{}, err
	}
	return s.CachedInfo().State, nil
}

// ServersClock returns the time of the server that leads the bucket's stream.
func (a *Arena) ServersClock(ctx context.Context) (time.Time, error) {
	s, err := a.js.Stream(ctx, stream)
	if err != nil {
		return time.Time{}, err
	}
	return s.CachedInfo().TimeStamp, nil
}

// Delete deletes the record as `nats kv del` does, without reading it first.
func (a *Arena) Delete() {
	// The servers may be down.
	_ = a.admin.PublishMsg(&nats.Msg{Subject: stored + Group, Header: nats.Header{"KV-Operation": {"DEL"}}})
}

// Overwrite writes a value over the record, as other tools do.
func (a *Arena) Overwrite(value string) {
	_ = a.admin.Publish(stored+Group, []byte(value)) // the servers may be down
}

// Garbage is what other tools may write over the record: nothing of it is a
// record or a vacancy.
var Garbage = []string{"", "{}", "hello", `{"id":7}`, `[1,2,3]`, "\x00\xff\xfe", `{"id":""}`, strings.Repeat("x", 4096)}

// Copy returns a copy of the servers' files, one directory for each. The
// servers must not run.
func (a *Arena) Copy() []string {
	copies := make([]string, len(a.Servers.Nodes))
	for i, n := range a.Servers.Nodes {
		copies[i] = a.TempDir()
		a.Check(os.CopyFS(copies[i], os.DirFS(n.StoreDir)))
	}
	return copies
}

// Restore puts the servers' files back to what they were when they were copied.
// The servers must not run.
func (a *Arena) Restore(copies []string) {
	for i, n := range a.Servers.Nodes {
		a.Check(replaceAll(n.StoreDir, copies[i]))
	}
}

// replaceAll replaces what is in a directory by a copy of another. The
// directory itself stays: it may be a mount.
func replaceAll(dir, from string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		errs = append(errs, os.RemoveAll(filepath.Join(dir, e.Name())))
	}
	return errors.Join(append(errs, os.CopyFS(dir, os.DirFS(from)))...)
}
