// Package agent_test judges openapi.yaml, which leader agent serves, and whether
// its answers are as described there.
//
// It builds the command, whose sources Go's test cache does not see: outside of
// make, run it with -count=1. The library that judges has many dependencies,
// which the command's own module is to be spared.
package agent_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
)

// patience bounds what no test that passes waits for.
const patience = time.Minute

// A lab is a running agent, whose answers are compared with its own description
// of them.
type lab struct {
	t      *testing.T
	url    string
	doc    *openapi3.T
	router routers.Router
	judged map[string]bool // the operations with at least one answer that is not a problem
}

// start starts leader agent with a new server, and reads the description that
// it serves.
func start(t *testing.T) *lab {
	t.Helper()
	// A part of the key of Go's test cache (see the Makefile).
	_ = os.Getenv("LEADER_TREE")
	program := filepath.Join(t.TempDir(), "leader.exe") // a name that runs everywhere
	run := func(name string, args ...string) {
		t.Helper()
		if out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput(); err != nil {
			t.Fatalf("%s %q: %v\n%s", name, args, err, out)
		}
	}
	run("go", "build", "-ldflags=-s -w", "-o", program, "github.com/seed-ff2cb582/leader/cmd/leader")
	key := filepath.Join(t.TempDir(), "key.pem")
	run(program, "token", "keygen", "--key", key, "--keys", key+".jwks")

	cmd := exec.CommandContext(t.Context(), program, "agent", "--dev", "--grace", "off", "--listen", "127.0.0.1:0", "--ttl", "20s", "--proof-key", key)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // so that it tidies up
	cmd.WaitDelay = patience
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Wait() }) // the answers have shown it
	l := &lab{t: t, judged: map[string]bool{}}
	for lines := bufio.NewScanner(out); l.url == "" && lines.Scan(); {
		l.url, _ = strings.CutPrefix(lines.Text(), "agent ")
	}
	if l.doc, err = openapi3.NewLoader().LoadFromData([]byte(l.fetch("/openapi.yaml"))); err != nil {
		t.Fatal(err)
	}
	if err := l.doc.Validate(t.Context(), openapi3.EnableSchemaFormatValidation()); err != nil {
		t.Errorf("openapi.yaml is not sound: %v", err)
	}
	l.doc.Servers = nil // the agent has another port than the one that they name
	if l.router, err = legacy.NewRouter(l.doc); err != nil {
		t.Fatal(err)
	}
	return l
}

func (l *lab) request(ctx context.Context, method, path, body string) *http.Request {
	l.t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, l.url+path, strings.NewReader(body))
	if err != nil {
		l.t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	return r
}

func (l *lab) send(r *http.Request) *http.Response {
	l.t.Helper()
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		l.t.Fatal(err)
	}
	return answer
}

func (l *lab) fetch(path string) string {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), patience)
	defer cancel()
	answer := l.send(l.request(ctx, http.MethodGet, path, ""))
	defer answer.Body.Close() //nolint:errcheck // it was read
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		l.t.Fatalf("%s: %s, %v", path, answer.Status, err)
	}
	return string(text)
}

// route finds the operation that a request is.
func (l *lab) route(r *http.Request) *openapi3filter.RequestValidationInput {
	l.t.Helper()
	route, params, err := l.router.FindRoute(r)
	if err != nil {
		l.t.Fatalf("%s %s: %v", r.Method, r.URL, err)
	}
	return &openapi3filter.RequestValidationInput{Request: r, PathParams: params, Route: route}
}

// An answer is what is known of all of them.
type answer struct {
	Candidate, Code string
	Term            uint64
	Trust           *int64 `json:"trust_for_ms"`
}

// ask sends a request, whose answer must have the status and be as described.
func (l *lab) ask(want int, method, path, body string, headers ...string) (a answer) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), patience)
	defer cancel()
	r := l.request(ctx, method, path, body)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	got := l.send(r)
	defer got.Body.Close() //nolint:errcheck // it was read
	text, err := io.ReadAll(got.Body)
	if err != nil || got.StatusCode != want {
		l.t.Fatalf("%s %s: %s, %s, %v, want status %d", method, path, got.Status, text, err, want)
	}
	in := l.route(r)
	if err := openapi3filter.ValidateResponse(ctx, &openapi3filter.ResponseValidationInput{
		RequestValidationInput: in, Status: got.StatusCode, Header: got.Header, Body: io.NopCloser(bytes.NewReader(text)),
		Options: &openapi3filter.Options{IncludeResponseStatus: true, MultiError: true},
	}); err != nil {
		l.t.Errorf("%s %s: %s\n%s\nis not as described: %v", method, path, got.Status, text, err)
	}
	if want < http.StatusBadRequest {
		l.judged[in.Route.Operation.OperationID] = true
	}
	if strings.Contains(got.Header.Get("Content-Type"), "json") && !bytes.HasPrefix(text, []byte("[")) {
		if err := json.Unmarshal(text, &a); err != nil {
			l.t.Fatal(err)
		}
	}
	return a
}

// listen reads a stream until an event is the one that is waited for. All must
// be as described, with data of the schema.
func (l *lab) listen(path, event, schema string, fits func(data string) bool, meanwhile func()) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), patience)
	defer cancel()
	r := l.request(ctx, http.MethodGet, path, "")
	got := l.send(r)
	defer got.Body.Close() //nolint:errcheck // it was read as far as needed
	in := l.route(r)
	described := in.Route.Operation.Responses.Status(got.StatusCode)
	if got.StatusCode != http.StatusOK || described.Value.Content[got.Header.Get("Content-Type")] == nil {
		l.t.Fatalf("%s: %s of %q", path, got.Status, got.Header.Get("Content-Type"))
	}
	list := described.Value.Content[got.Header.Get("Content-Type")].Schema.Value
	l.judged[in.Route.Operation.OperationID] = true
	meanwhile()
	var kind string
	for lines := bufio.NewScanner(got.Body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch name {
		case "event":
			kind = value
		case "data":
			l.judge(list, []any{map[string]any{"event": kind, "data": value}})
			var v any
			if err := json.Unmarshal([]byte(value), &v); err != nil {
				l.t.Fatal(err)
			}
			l.judge(l.doc.Components.Schemas[schema].Value, v)
			if kind != event {
				l.t.Errorf("%s: an event %q", path, kind)
			}
			if strings.Contains(value, "_for_ms") {
				l.t.Errorf("%s: an event grants trust: %s", path, value)
			}
			if fits(value) {
				return
			}
		}
	}
	l.t.Fatalf("%s: the stream has ended", path)
}

func (l *lab) judge(s *openapi3.Schema, v any) {
	l.t.Helper()
	if err := s.VisitJSON(v, openapi3.EnableJSONSchema2020(), openapi3.MultiErrors()); err != nil {
		l.t.Errorf("%v\nis not as described: %v", v, err)
	}
}

// until asks until the answer fits.
func (l *lab) until(what string, try func() error) {
	l.t.Helper()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	err := errors.New("not tried")
	for end := time.Now().Add(patience); time.Now().Before(end); <-again.C {
		if err = try(); err == nil {
			return
		}
	}
	l.t.Fatalf("%s: %v", what, err)
}

// trusts demands that an answer reports at least so much trust, or no trust if
// least is negative.
func (l *lab) trusts(what string, a answer, code string, least int64) {
	l.t.Helper()
	switch {
	case a.Code != code:
		l.t.Errorf("%s: the code %q, want %q", what, a.Code, code)
	case least < 0 && a.Trust != nil:
		l.t.Errorf("%s: trust for %d ms, in an answer about no candidate", what, *a.Trust)
	case least >= 0 && a.Trust == nil:
		l.t.Errorf("%s: no trust is reported", what)
	case least == 0 && *a.Trust != 0:
		l.t.Errorf("%s: trust for %d ms, want none", what, *a.Trust)
	case least > 0 && *a.Trust < least:
		l.t.Errorf("%s: trust for %d ms, want some", what, *a.Trust)
	}
}

func TestTheAgentAnswersAsItIsDescribed(t *testing.T) {
	t.Parallel()
	l := start(t)
	const (
		get, post, del = http.MethodGet, http.MethodPost, http.MethodDelete
		group          = "/v1/groups/g"
		candidates     = group + "/candidates"
	)
	l.ask(200, get, "/healthz", "")
	l.ask(200, get, "/openapi.yaml", "")
	l.ask(200, get, "/v1/groups", "") // the groups of --dev
	l.trusts("a group that nobody knows", l.ask(404, get, group, ""), "no_group", -1)
	l.trusts("a campaign without a name", l.ask(400, post, candidates, `{}`), "invalid", -1)

	wish := func(id string) string {
		return fmt.Sprintf(`{"instance_id":%q,"lease_ms":60000,"address":"host:1"}`, id)
	}
	a := l.ask(201, post, candidates, wish("a"))
	l.trusts("a name that is taken", l.ask(409, post, candidates, wish("a")), "id_taken", -1)
	mine := candidates + "/" + a.Candidate
	l.until("a is trusted", func() error {
		if a = l.ask(200, post, mine+"/keepalive", ""); *a.Trust == 0 {
			return errors.New("not yet")
		}
		return nil
	})
	l.ask(200, get, group, "")
	l.ask(200, get, mine, "")
	l.trusts("a proof", l.ask(200, post, mine+"/proof", `{}`), "", 1)

	follower := l.ask(201, post, candidates, wish("b"))
	other := candidates + "/" + follower.Candidate
	term := strconv.FormatUint(a.Term, 10)
	next := strconv.FormatUint(a.Term+1, 10)
	l.trusts("a term to come, of who leads", l.ask(409, post, mine+"/resign", `{"stopped_term":`+next+`}`), "wrong_term", 1)
	l.trusts("a body that cannot be read, of who leads", l.ask(400, post, mine+"/proof", `{"lifetime":1}`), "invalid", 1)
	l.trusts("a proof of who follows", l.ask(409, post, other+"/proof", `{}`), "not_leader", 0)
	l.trusts("the resignation of who follows", l.ask(409, post, other+"/resign", `{}`), "not_leader", 0)
	l.trusts("a candidate that is not there", l.ask(404, post, candidates+"/none/keepalive", ""), "no_candidate", 0)
	l.trusts("a browser", l.ask(403, post, mine+"/keepalive", "", "Origin", "http://localhost"), "browser", -1)

	leads := func(data string) bool { return strings.Contains(data, `"state":"LEADER"`) }
	l.listen(mine+"/events", "candidate", "CandidateState", leads, func() {})
	l.listen(group+"/watch", "leader", "Group", func(data string) bool { return strings.Contains(data, `"leader":"b"`) }, func() {
		l.ask(200, post, mine+"/resign", `{"stopped_term":`+term+`}`)
	})
	l.ask(204, del, other, "")
	for _, path := range l.doc.Paths.Map() {
		for _, op := range path.Operations() {
			if !l.judged[op.OperationID] {
				t.Errorf("no answer of %s was judged", op.OperationID)
			}
		}
	}
}
