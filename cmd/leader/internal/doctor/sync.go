package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/finding"
)

// syncing is the part of a server's answer about when it writes to its disk.
type syncing struct {
	Disabled bool `json:"disabled"` // JetStream is, and there is no further field
	Config   struct {
		Interval time.Duration `json:"sync_interval"`
		Always   bool          `json:"sync_always"`
	} `json:"config"`
}

const fsync = "sync_interval: always in the server's jetstream {}, if a loss of power may hit most of the servers at once; and fence what must not see two leaders"

// sync reports how soon an acknowledged write is on the disk, if the server
// reveals that.
//
// Only the monitoring port reveals that, for one server, and the user may not
// reach any: an unknown setting is not a failure. It is a warning where the
// only replica may lose what it acknowledged; with several the power of most
// servers has to fail at the same time, which the user has to judge.
func (e *examination) sync(ctx context.Context, info *jetstream.StreamInfo) {
	l := &e.findings
	if info != nil && (info.Config.Storage == jetstream.MemoryStorage || info.Config.PersistMode == jetstream.AsyncPersistMode) {
		return // no acknowledgement waits for a disk, of which the bucket's finding warns
	}
	if e.cmd.Monitor == "" {
		l.Add("sync", finding.Info, fsync, "servers do not report to clients how often they sync: unknown, and by default every 2m0s. --monitor http://HOST:8222 asks the monitoring port")
		return
	}
	ctx, cancel := e.limited(ctx)
	defer cancel()
	got, err := readSyncing(ctx, e.cmd.Monitor)
	switch {
	case err != nil:
		l.Add("sync", finding.Info, "", "the monitoring port does not report it: %v", err)
	case got.Disabled:
		l.Add("sync", finding.Info, "name a server that keeps the bucket in --monitor", "that server has no JetStream: how often the others sync is not known, and by default every 2m0s")
	case got.Config.Always:
		l.Add("sync", finding.OK, "", "that server syncs each write before it acknowledges it")
	case got.Config.Interval <= 0:
		l.Add("sync", finding.Info, "", "the monitoring port does not report how often that server syncs: by default every 2m0s")
	case info != nil && info.Config.Replicas > 1:
		l.Add("sync", finding.Info, fsync, "that server syncs every %v: a loss of power in most servers at once loses acknowledged writes; the death of a process loses none", got.Config.Interval)
	default:
		l.Add("sync", finding.Warn, fsync, "that server syncs every %v, and is the only one: a loss of power loses acknowledged writes; the death of the process loses none", got.Config.Interval)
	}
}

// maxMonitor bounds what is read of an answer. The address is the user's, and
// may be anything's.
const maxMonitor = 1 << 20

// readSyncing asks a server's monitoring port (/jsz) for it.
func readSyncing(ctx context.Context, monitor string) (s syncing, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(monitor, "/")+"/jsz", http.NoBody)
	if err != nil {
		return s, err
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return s, err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return s, fmt.Errorf("%s answers %s", req.URL.Redacted(), answer.Status)
	}
	err = json.NewDecoder(io.LimitReader(answer.Body, maxMonitor)).Decode(&s)
	return s, err
}
