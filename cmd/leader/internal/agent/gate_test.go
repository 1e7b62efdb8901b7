package agent

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/seed-ff2cb582/leader"
)

// refused sends a request, and returns the code of the problem that answers it.
func (l *lab) refused(method, path, body string, change func(*http.Request)) (status int, code string) {
	l.t.Helper()
	// An hour of virtual time, for a stream that should not be.
	ctx, cancel := context.WithTimeout(l.t.Context(), time.Hour)
	defer cancel()
	r := httptest.NewRequestWithContext(ctx, method, "http://localhost:9467"+path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if change != nil {
		change(r)
	}
	w := httptest.NewRecorder()
	l.h.ServeHTTP(w, r)
	if w.Code < http.StatusBadRequest {
		return w.Code, ""
	}
	var p problem
	d := json.NewDecoder(w.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil || p.Status != w.Code || w.Header().Get("Content-Type") != "application/problem+json" {
		l.t.Errorf("%s %s: status %d, %v: no problem", method, path, w.Code, err)
	}
	if w.Header().Get("Cache-Control") != "no-store" || w.Header().Get("Access-Control-Allow-Origin") != "" {
		l.t.Errorf("%s %s: headers %v", method, path, w.Header())
	}
	return w.Code, p.Code
}

func header(key, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(key, value) }
}

func TestOnlyProgramsOfThisMachineAreLetIn(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, l *lab) {
		host := func(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }
		const path = "/v1/groups/g/candidates"
		const body = `{"instance_id":"a"}`
		for name, c := range map[string]struct {
			change func(*http.Request)
			code   string
		}{
			"a name that resolves to loopback": {host("evil.example"), "host"},
			"the same with a port":             {host("evil.example:9467"), "host"},
			"a name that begins like ours":     {host("localhost.evil.example"), "host"},
			"an address that begins like ours": {host("127.0.0.1.evil.example"), "host"},
			"no host":                          {host(""), "host"},
			"another machine's address":        {host("10.0.0.1:9467"), "host"},
			"a page of another site":           {header("Origin", "https://evil.example"), "browser"},
			"a page of this address":           {header("Origin", "http://localhost:9467"), "browser"},
			"a page without an origin":         {header("Origin", "null"), "browser"},
			"an image of another site":         {header("Sec-Fetch-Site", "cross-site"), "browser"},
			"a form":                           {header("Content-Type", "text/plain"), "media_type"},
			"no media type":                    {func(r *http.Request) { r.Header.Del("Content-Type") }, "media_type"},
			"a media type that cannot be read": {header("Content-Type", ";"), "media_type"},
		} {
			if _, code := l.refused(http.MethodPost, path, body, c.change); code != c.code {
				t.Errorf("%s: %q, want %q", name, code, c.code)
			}
		}
		if n := l.s.number(); n != 0 {
			t.Errorf("%d candidates were started all the same", n)
		}
		for _, name := range []string{"localhost", "127.0.0.1:9467", "[::1]:9467", "127.8.8.8"} {
			if status, code := l.refused(http.MethodGet, "/v1/groups", "", host(name)); status != http.StatusOK {
				t.Errorf("%s: %d %s", name, status, code)
			}
		}
	})
}

func TestTokenIsDemandedOfEveryRequest(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, l *lab) {
		sum := sha256.Sum256([]byte("a token of some length"))
		l.s.gate.token = &sum
		for _, r := range l.s.routes() {
			path := strings.NewReplacer("{group}", "g", "{candidate}", "c").Replace(r.path)
			for _, given := range []string{"", "Bearer ", "Bearer a token of some lengt", "Bearer a token of some length ", "a token of some length", "Basic a token of some length"} {
				status, code := l.refused(r.method, path, "", header("Authorization", given))
				if r.open != (status == http.StatusOK) || !r.open && code != "token" {
					t.Errorf("%s %s with %q: %d %s", r.method, r.path, given, status, code)
				}
			}
		}
		named := func(r *http.Request) {
			r.Header.Set("Authorization", "Bearer a token of some length")
			r.Host = "agent.example"
		}
		if status, code := l.refused(http.MethodGet, "/v1/groups", "", named); status != http.StatusOK {
			t.Errorf("with the token, by another name: %d %s", status, code)
		}
	})
}

func TestBodiesAreRefusedWithTheFieldAndItsRule(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, l *lab) {
		const path = "/v1/groups/g/candidates"
		text := l.ask(http.StatusBadRequest, http.MethodPost, path, `{"instance_id":"a","ttl_ms":1000,"heartbeat_interval_ms":500}`)
		if !strings.Contains(text, `{"field":"ttl_ms","value":"1000","rule":"must be at least 3 × heartbeat_interval_ms (500ms)"}`) {
			t.Errorf("the rule is in other words than the request: %s", text)
		}
		for body, field := range map[string]string{
			`{}`: "instance_id",
			`{"instance_id":"` + strings.Repeat("a", 257) + `"}`: "instance_id",
			`{"instance_id":7}`:                                                      "instance_id",
			`{"instance_id":"a","ttl_ms":1}`:                                         "ttl_ms",
			`{"instance_id":"a","ttl_ms":-1}`:                                        "ttl_ms",
			`{"instance_id":"a","ttl_ms":9223372036854775}`:                          "ttl_ms",
			`{"instance_id":"a","ttl_ms":1.5}`:                                       "ttl_ms",
			`{"instance_id":"a","lease_ms":99}`:                                      "lease_ms",
			`{"instance_id":"a","lease_ms":3600001}`:                                 "lease_ms",
			`{"instance_id":"a","version":"a b"}`:                                    "version",
			`{"instance_id":"a","version_policy":"best"}`:                            "version_policy",
			`{"instance_id":"a","meta":{"a":"` + strings.Repeat("m", 17<<10) + `"}}`: "meta",
		} {
			var p problem
			if err := json.Unmarshal([]byte(l.ask(http.StatusBadRequest, http.MethodPost, path, body)), &p); err != nil {
				t.Fatal(err)
			}
			if len(p.Errors) == 0 || p.Errors[0].Field != field || p.Errors[0].Rule == "" {
				t.Errorf("%.60s: %+v, want a rule of %s", body, p, field)
			}
		}
		for body, code := range map[string]string{
			`{"instance_id":"a"`: "invalid", `[]`: "invalid", `{"instance_id":"a"}{}`: "invalid", `{"instance_id":"a","ttl":1}`: "invalid",
			`{"a":"` + strings.Repeat("x", maxBody) + `"}`: "too_large", "\xff": "invalid", "null null": "invalid",
		} {
			if _, got := l.refused(http.MethodPost, path, body, nil); got != code {
				t.Errorf("%.40q: %s, want %s", body, got, code)
			}
		}
		for _, group := range []string{"_ctl.g", "a..b", "a%20b", ".a", strings.Repeat("g", 300)} {
			if _, got := l.refused(http.MethodPost, "/v1/groups/"+group+"/candidates", `{"instance_id":"a"}`, nil); got != "invalid" && got != "no_route" {
				t.Errorf("group %q: %s", group, got)
			}
		}
		if n := l.s.number(); n != 0 {
			t.Errorf("%d candidates were started all the same", n)
		}
	})
}

func TestCandidatesBeyondTheRoomAreRefused(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, l *lab) {
		c := l.campaign("a", "")
		if _, code := l.refused(http.MethodPost, "/v1/groups/g/candidates", `{"instance_id":"a"}`, nil); code != "id_taken" {
			t.Errorf("a second candidate of a name: %s", code)
		}
		for _, id := range []string{"b", "c", "d"} {
			l.campaign(id, "")
		}
		if _, code := l.refused(http.MethodPost, "/v1/groups/g/candidates", `{"instance_id":"e"}`, nil); code != "full" {
			t.Errorf("one candidate too many: %s", code)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for range cap(l.s.streams) {
			go l.h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/v1/groups/g/watch", nil))
		}
		after(1)
		if _, code := l.refused(http.MethodGet, c.path+"/events", "", nil); code != "full" {
			t.Errorf("one stream too many: %s", code)
		}
		if _, code := l.refused(http.MethodHead, c.path+"/events", "", nil); code != "no_route" {
			t.Errorf("HEAD of a stream: %s", code)
		}
	})
}

func TestStrangersDoNotFindACandidate(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, l *lab) {
		c := l.campaign("a", "")
		for _, path := range []string{"/v1/groups/g/candidates/a", "/v1/groups/other/candidates/" + c.Candidate, "/v1/groups/g/candidates/" + c.Candidate[1:]} {
			if _, code := l.refused(http.MethodPost, path+"/keepalive", "", nil); code != "no_candidate" {
				t.Errorf("%s: %s", path, code)
			}
		}
		if _, code := l.refused(http.MethodGet, "/v1/groups/g/candidates", "", nil); code != "no_route" {
			t.Errorf("a list of candidates, whose handles are secrets: %s", code)
		}
		if n := testutil.ToFloat64(l.s.count.refused.WithLabelValues("no_route")); n != 1 {
			t.Errorf("%v requests by no route were counted", n)
		}
	})
}

func TestPanicEndsOneRequestAlone(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, l *lab) {
		l.s.open = func(leader.ElectionConfig) (leader.Election, error) { panic("a defect") }
		if status, code := l.refused(http.MethodPost, "/v1/groups/g/candidates", `{"instance_id":"a"}`, nil); status != http.StatusInternalServerError || code != "internal" {
			t.Errorf("%d %s", status, code)
		}
		l.ask(http.StatusOK, http.MethodGet, "/healthz", "")
	})
}

func TestTokenFilesAreRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for content, fine := range map[string]bool{
		"": false, "short": false, "\n": false, strings.Repeat("a", minToken): true, strings.Repeat("a", minToken) + "\r\n": true,
		strings.Repeat("a", maxToken+1): false, "two words of a sentence": false, "two\nlines of sixteen bytes": false, strings.Repeat("ä", minToken): false,
	} {
		file := filepath.Join(dir, "token")
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readToken(file); (err == nil) != fine {
			t.Errorf("%.30q: %v", content, err)
		}
	}
	if _, err := readToken(filepath.Join(dir, "none")); err == nil {
		t.Error("a file that is not there was read")
	}
}

func TestAddressesOfOtherMachinesNeedATokenAndAFlag(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		listen, token string
		allow, fine   bool
	}{
		{"127.0.0.1:0", "", false, true}, {"localhost:1", "", false, true}, {"[::1]:1", "", false, true}, {"unix:///run/s", "", false, true},
		{":1", "", false, false}, {"0.0.0.0:1", "", true, false}, {"0.0.0.0:1", "f", false, false}, {"agent.example:1", "f", true, true},
		{"unix://relative", "", false, false}, {"7", "", false, false}, {"unix:///", "", false, true},
	} {
		cmd := Command{Listen: c.listen, TokenFile: c.token, AllowRemote: c.allow, SocketMode: "0600", MaxCandidates: 1, MaxStreams: 1}
		cmd.Timeout, cmd.Bucket, cmd.Profile = 1, "b", "stable"
		if err := cmd.Validate(); (err == nil) != c.fine {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestDefaultsThatNoCandidateCouldHaveAreRefusedAtTheStart(t *testing.T) {
	t.Parallel()
	cmd := Command{Listen: "127.0.0.1:0", SocketMode: "0600", MaxCandidates: 1, MaxStreams: 1, TTL: time.Second, Heartbeat: time.Second}
	cmd.Timeout, cmd.Bucket, cmd.Profile = 1, "b", "stable"
	if err := cmd.Validate(); !errors.Is(err, leader.ErrInvalidConfig) {
		t.Errorf("a heartbeat as long as the lease: %v", err)
	}
	if cmd.Heartbeat = 0; cmd.Validate() != nil {
		t.Errorf("a lease without a heartbeat: %v", cmd.Validate())
	}
}

// short returns a directory whose path leaves room for a socket's name.
func short(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "s") //nolint:usetesting // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func TestSocketIsItsOwnersAndTakesThePlaceOfADeadOne(t *testing.T) {
	t.Parallel()
	dir := short(t)
	path := filepath.Join(dir, "agent.sock")
	ln, clean, err := listenUnix(t.Context(), path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(path)
	if err != nil || info.Mode() != 0o600|os.ModeSocket {
		t.Fatalf("the socket is %v, %v", info.Mode(), err)
	}
	if _, _, err := listenUnix(t.Context(), path, 0o600); err == nil {
		t.Fatal("a second agent took the place of one that listens")
	}
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	again, cleanAgain, err := listenUnix(t.Context(), path, 0o660)
	if err != nil {
		t.Fatalf("the socket of an agent that was killed: %v", err)
	}
	clean() // of the first, which must not remove what is not its own
	c, err := (&net.Dialer{}).DialContext(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = c.Close(), again.Close()
	cleanAgain()
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := listenUnix(t.Context(), path, 0o600); err == nil {
		t.Error("a file that is not a socket was replaced")
	}
}
