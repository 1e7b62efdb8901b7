// Package objectlab starts object servers for the project's tests, each in its
// own process, without containers: versitygw, which speaks the protocol of
// Amazon S3, on a directory with extended attributes, and fake-gcs-server, an
// emulator of Google Cloud Storage, in memory. They can be killed, frozen and
// started again.
//
// Package servers finds the programs, and skips or fails a test without them.
package objectlab

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/test/internal/ports"
	"github.com/seed-ff2cb582/leader/test/labs/servers"
	"github.com/seed-ff2cb582/leader/test/labs/stores/internal/tethered"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// The administrator of [StartS3], and its region.
const (
	Key    = "lab-key"
	Secret = "lab-secret"
	Region = "us-east-1"
)

// A Server is one server of objects.
type Server struct {
	Addr string // host:port

	tb      testing.TB
	bin     string
	path    string // that is asked to know whether it serves
	args    []string
	process *tethered.Process // nil while it does not run
}

// StartS3 starts versitygw with a new empty directory, in which buckets are
// directories, and with further flags of its command posix. It is killed when
// the test ends.
func StartS3(tb testing.TB, flags ...string) *Server {
	tb.Helper()
	dir := tb.TempDir()
	data, users := filepath.Join(dir, "data"), filepath.Join(dir, "users")
	for _, d := range []string{data, users} {
		if err := os.Mkdir(d, 0o700); err != nil {
			tb.Fatal(err)
		}
	}
	s := newServer(tb, "s3", "/")
	s.args = append([]string{
		"--port", s.Addr, "--access", Key, "--secret", Secret, "--region", Region, "--iam-dir", users, "--keep-alive", "--quiet", "posix",
	}, flags...)
	s.args = append(s.args, data)
	s.Run()
	return s
}

// StartGCS starts fake-gcs-server, which forgets everything when it ends. It is
// killed when the test ends.
func StartGCS(tb testing.TB) *Server {
	tb.Helper()
	s := newServer(tb, "gcs", "/storage/v1/b?project=lab")
	host, port, err := net.SplitHostPort(s.Addr)
	if err != nil {
		tb.Fatal(err)
	}
	s.args = []string{"-backend", "memory", "-scheme", "http", "-host", host, "-port", port, "-public-host", s.Addr, "-external-url", s.URL(), "-log-level", "error"}
	s.Run()
	return s
}

func newServer(tb testing.TB, name, path string) *Server {
	tb.Helper()
	bin := servers.Need(tb, name)
	s := &Server{Addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(ports.Free(tb, 1)[0])), tb: tb, bin: bin, path: path}
	tb.Cleanup(s.Kill)
	return s
}

// URL is where clients reach the server.
func (s *Server) URL() string { return "http://" + s.Addr }

// Run starts the server if it does not run, on the port and the files that it
// had before, and waits until it serves.
func (s *Server) Run() {
	s.tb.Helper()
	if s.process != nil {
		return
	}
	process, err := tethered.Start(s.bin, s.args...)
	if err != nil {
		s.tb.Fatalf("objectlab: %v", err)
	}
	s.process = process
	name := filepath.Base(s.bin)
	natslab.Eventually(s.tb, name+" serves", func(ctx context.Context) error {
		select {
		case <-s.process.Exited:
			s.tb.Fatalf("objectlab: %s has ended:\n%s", name, s.process.Log())
		default:
		}
		return s.answers(ctx)
	})
}

// answers finds out whether the server answers anything at all.
func (s *Server) answers(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL()+s.path, http.NoBody)
	if err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	return res.Body.Close()
}

// Kill ends the server without a warning (SIGKILL), and returns when it is
// gone. Its files stay as they are.
func (s *Server) Kill() {
	if s.process == nil {
		return
	}
	s.process.Kill()
	s.process = nil
}

// Freeze stops the server (SIGSTOP): its connections stay open, and nothing
// answers. It returns when that is so, which is a moment after the signal.
func (s *Server) Freeze() {
	s.tb.Helper()
	s.signal(s.process.Pause)
	for answers := true; answers; {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		answers = s.answers(ctx) == nil
		cancel()
	}
}

// Thaw ends Freeze.
func (s *Server) Thaw() { s.signal(s.process.Resume) }

func (s *Server) signal(send func() error) {
	s.tb.Helper()
	if err := send(); err != nil {
		s.tb.Fatalf("objectlab: %v", err)
	}
}

// Program returns the path of versitygw, which is the tool of its
// administrators, too.
func (s *Server) Program() string { return s.bin }

// S3URL is the URL of a store in a bucket of the server, which is made on
// request.
func (s *Server) S3URL(bucket string) string {
	return fmt.Sprintf("s3://%s:%s@%s?region=%s&create=true&endpoint=%s", Key, Secret, bucket, Region, s.URL())
}

// GCSURL is the URL of a store in a bucket of the emulator, which is made on
// request.
func (s *Server) GCSURL(bucket string) string {
	return fmt.Sprintf("gs://%s?project=lab&create=true&auth=none&endpoint=%s", bucket, s.URL())
}
