//go:build unix

package upgrade_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/test/internal/overlap"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// The environment of leader run, which its program inherits. A process with
// signsVariable is that program.
const (
	signsVariable   = "UPGRADE_SIGNS"   // the directory of the programs' files
	versionVariable = "UPGRADE_VERSION" // of leader run
	lengthVariable  = "UPGRADE_LENGTH"  // signs after which the program ends; empty: it does not by itself
)

const (
	// beat is the time from one sign of life to the next.
	beat = time.Millisecond
	// drain is how long a program goes on after SIGTERM: longer than the next
	// one takes to start, so that a leader that does not wait for its end is
	// found, and shorter than it has before SIGKILL.
	drain = 180 * time.Millisecond
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(signsVariable); dir != "" {
		if err := work(dir); err != nil {
			fmt.Fprintln(os.Stderr, "upgrade:", err)
			os.Exit(1)
		}
		return
	}
	if natslab.Serving() {
		return
	}
	m.Run()
}

// work is the program of leader run. It ends soon after SIGTERM, or after its
// length.
func work(dir string) error {
	begun := overlap.Now()
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	length, _ := strconv.Atoi(os.Getenv(lengthVariable)) // 0 if empty
	name := strings.Join([]string{
		os.Getenv("LEADER_TERM"), os.Getenv("LEADER_ID"), os.Getenv(versionVariable), strconv.Itoa(os.Getpid()),
	}, separator)
	dir = filepath.Join(dir, os.Getenv("LEADER_GROUP"))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	file, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	ticks := time.NewTicker(beat)
	var end <-chan time.Time
	for at, n := begun, 1; ; at, n = overlap.Now(), n+1 {
		// At once, and in one write: the process may be killed.
		if _, err := file.Write(binary.BigEndian.AppendUint64(nil, uint64(at))); err != nil {
			return err
		}
		if n == length {
			return nil
		}
		select {
		case <-ticks.C:
		case <-term:
			end = time.After(drain)
		case <-end:
			_, err := file.Write(binary.BigEndian.AppendUint64(nil, uint64(overlap.Now())))
			return err
		}
	}
}
