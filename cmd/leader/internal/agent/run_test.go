package agent

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"go.uber.org/goleak"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/devtest"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/natsconn"
	"github.com/seed-ff2cb582/leader/proof"
	"github.com/seed-ff2cb582/leader/store/natsstore"
)

// patience bounds what no test that passes waits for.
const patience = time.Minute

// A running is leader agent under way in this process.
type running struct {
	t     *testing.T
	ends  func() error // interrupts it, and waits
	where map[string]string
}

// start runs the command, and returns when it has printed where it listens.
func start(t *testing.T, c Command, lines int) *running {
	t.Helper()
	c.Bucket, c.Timeout, c.Profile, c.Grace = "leaders", 5*time.Second, "low-latency", "off"
	c.Kit.Settings = func(f natsconn.Flags) (natsconn.Settings, error) { return natsconn.Settings{URL: f.Server}, nil }
	c.SocketMode, c.MaxCandidates, c.MaxStreams = "0600", 8, 8
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	out, in := io.Pipe()
	result := make(chan error, 1)
	go func() {
		result <- c.Run(ctx, app.Streams{Out: in, Err: t.Output()})
		_ = in.Close()
	}()
	r := &running{t: t, where: map[string]string{}}
	said := bufio.NewScanner(out)
	for range lines {
		if !said.Scan() {
			t.Fatal(<-result)
		}
		what, where, _ := strings.Cut(said.Text(), " ")
		r.where[what] = where
	}
	r.ends = func() error { cancel(); return <-result }
	return r
}

func (r *running) do(method, url, body string, v any) (status int) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer answer.Body.Close() //nolint:errcheck // it was read
	b, err := io.ReadAll(answer.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	if text, ok := v.(*string); ok {
		*text = string(b)
	} else if v != nil {
		if err := json.Unmarshal(b, v); err != nil {
			r.t.Fatalf("%s: %v", b, err)
		}
	}
	return answer.StatusCode
}

// A flat status has the times among its fields.
type flat struct {
	Candidate, State string
	Term             uint64
	Trust            int64 `json:"trust_for_ms"`
}

// Clients are given the address that it prints. A socket is made in a hidden
// directory that is gone by then.
func TestAgentPrintsTheAddressForItsClients(t *testing.T) {
	t.Parallel()
	c := Command{Listen: "unix://" + filepath.Join(short(t), "agent.sock"), TTL: 20 * time.Second}
	c.Server = devtest.Serve(t)
	r := start(t, c, 1)
	if got := r.where["agent"]; got != c.Listen {
		t.Errorf("%q, want %q", got, c.Listen)
	}
	if err := r.ends(); err != nil {
		t.Error(err)
	}
}

// It runs alone: it counts goroutines.
func TestClientHearsOfItsTermProvesItAndTheAgentEndsWithoutATrace(t *testing.T) {
	url := devtest.Serve(t)
	_, js := devtest.Connect(t, url)
	if err := natsstore.EnsureBucket(t.Context(), js, natsstore.BucketConfig{Bucket: "leaders"}); err != nil {
		t.Fatal(err) // whose goroutines are the server's
	}
	http.DefaultClient.CloseIdleConnections()
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	defer http.DefaultClient.CloseIdleConnections()
	key, err := proof.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	pem, err := key.MarshalPEM()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(file, pem, 0o600); err != nil {
		t.Fatal(err)
	}
	// No test waits for the TTL.
	c := Command{Listen: "127.0.0.1:0", ProofKey: file, Metrics: "127.0.0.1:0", TTL: 20 * time.Second}
	c.Server = url
	r := start(t, c, 2)
	base := r.where["agent"] + "/v1/groups/g"
	var f flat
	if status := r.do(http.MethodPost, base+"/candidates", `{"instance_id":"a","lease_ms":60000}`, &f); status != http.StatusCreated {
		t.Fatalf("status %d", status)
	}
	mine := base + "/candidates/" + f.Candidate

	// An event of the stream is the signal to ask.
	events := r.listen(mine + "/events")
	for f.Trust == 0 {
		events.next()
		r.do(http.MethodPost, mine+"/keepalive", "", &f)
	}
	watch := r.listen(base + "/watch")
	if said := watch.next(); said.Leader != "a" && watch.next().Leader != "a" {
		t.Errorf("observers get %+v", said)
	}
	r.checkProof(mine, key, f.Term)
	r.checkMetrics(f.Term)

	word := `{"stopped_term":` + number(f.Term) + `}`
	f = flat{}
	if status := r.do(http.MethodPost, mine+"/resign", word, &f); status != http.StatusOK || f.Trust != 0 {
		t.Errorf("resigned with status %d, and gets %+v", status, f)
	}
	if status := r.do(http.MethodPost, mine+"/proof", `{}`, nil); status != http.StatusConflict {
		t.Errorf("a proof without a term: status %d", status)
	}
	if err := r.ends(); err != nil {
		t.Error(err)
	}
	events.close()
	watch.close()
}

func (r *running) checkProof(mine string, key proof.Key, term uint64) {
	r.t.Helper()
	var made proofAnswer
	if status := r.do(http.MethodPost, mine+"/proof", `{"audience":"billing","lifetime_ms":5000}`, &made); status != http.StatusOK {
		r.t.Fatalf("status %d", status)
	}
	keys, err := proof.NewKeySet(key.Public())
	if err != nil {
		r.t.Fatal(err)
	}
	v, err := proof.NewVerifier("g", keys, proof.VerifierOptions{Audience: "billing", Skew: time.Millisecond})
	if err != nil {
		r.t.Fatal(err)
	}
	st, err := v.Accept(r.t.Context(), made.Proof)
	if err != nil || st.Term != term || made.Term != term || st.Leader != "a" || made.Trust <= 0 {
		r.t.Errorf("%+v, %v, want term %d of a, and trust beside it: %+v", st, err, term, made)
	}
}

func (r *running) checkMetrics(term uint64) {
	r.t.Helper()
	var text string
	r.do(http.MethodGet, r.where["metrics"], "", &text)
	for _, want := range []string{
		"election_agent_candidates 1\n", `election_agent_withdrawn_candidates_total{reason="silent"} 0`, "election_agent_streams 2\n",
		`election_is_leader{bucket="leaders",instance_id="a",role="g"} 1`,
	} {
		if !strings.Contains(text, want) {
			r.t.Errorf("no %s among the metrics of term %d:\n%s", want, term, grep(text, "election_"))
		}
	}
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	if err != nil || len(problems) > 0 {
		r.t.Errorf("%v %v", problems, err)
	}
}

// grep returns the lines that begin with a word.
func grep(text, word string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, word) {
			b.WriteString(line)
		}
	}
	return b.String()
}

// A listener reads a stream.
type listener struct {
	t     *testing.T
	lines *bufio.Scanner
	close func()
}

func (r *running) listen(url string) *listener {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		r.t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(req) //nolint:bodyclose // close does
	if err != nil {
		r.t.Fatal(err)
	}
	if kind := answer.Header.Get("Content-Type"); kind != "text/event-stream" {
		r.t.Fatalf("%s: status %d, %s", url, answer.StatusCode, kind)
	}
	return &listener{r.t, bufio.NewScanner(answer.Body), func() { cancel(); _ = answer.Body.Close() }}
}

// next returns the data of the next event, which grants nothing.
func (l *listener) next() (g struct {
	Leader any
	Trust  *int64 `json:"trust_for_ms"`
	Lease  *int64 `json:"lease_for_ms"`
}) {
	l.t.Helper()
	for l.lines.Scan() {
		data, ok := strings.CutPrefix(l.lines.Text(), "data: ")
		if !ok {
			continue
		}
		if err := json.Unmarshal([]byte(data), &g); err != nil {
			l.t.Fatal(err)
		}
		if g.Trust != nil || g.Lease != nil {
			l.t.Errorf("an event grants trust: %s", data)
		}
		return g
	}
	l.t.Fatalf("the stream has ended: %v", l.lines.Err())
	return g
}

// A program that may connect must not take the file descriptors by which the
// agent reaches its store.
func TestTheAgentBoundsItsConnections(t *testing.T) {
	c := Command{Listen: "127.0.0.1:0"}
	c.Server = devtest.Serve(t)
	r := start(t, c, 1)
	defer func() {
		if err := r.ends(); err != nil {
			t.Error(err)
		}
	}()
	dial := func() net.Conn {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(r.where["agent"], "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	idle := dial()
	in := bufio.NewReader(idle)
	if _, err := io.WriteString(idle, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, answer.Body)
	_ = answer.Body.Close()
	// It would be closed after two minutes, having asked nothing. Each look
	// takes no time: one that comes too early is followed by the next.
	err = nil
	for range 2000 {
		dial()
		_ = idle.SetReadDeadline(time.Now().Add(time.Millisecond))
		if _, err = in.ReadByte(); !errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
	}
	if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("an idle connection keeps its place beside 2000 others: %v", err)
	}
	if status := r.do(http.MethodGet, r.where["agent"]+"/healthz", "", nil); status != http.StatusOK {
		t.Errorf("%d", status)
	}
}
