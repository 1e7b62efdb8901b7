package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/advisory"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/read"
	"github.com/seed-ff2cb582/leader/store/natsstore"
)

// A visit is one request to a page of leader dash.
type visit struct {
	method, path, body string
	header             map[string]string
}

// ask makes the request and returns the answer's status, header and body.
// Redirections are not followed.
func (v visit) ask(t *testing.T, base string) (code int, header http.Header, body string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, v.method, strings.TrimSuffix(base, "/")+v.path, strings.NewReader(v.body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range v.header {
		if name == "Host" {
			req.Host = value
		}
		req.Header.Set(name, value)
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // it was read
	content, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(content)
}

// stepDown is the request that the page's button makes, with further headers or
// others.
func stepDown(term uint64, header map[string]string) visit {
	all := map[string]string{"Content-Type": "application/json", "Leader-Dash": "1"}
	maps.Copy(all, header)
	return visit{http.MethodPost, "/api/control", fmt.Sprintf(`{"op":"step-down","group":"reports","term":"%d","successor":"","why":"a test"}`, term), all}
}

func TestDashIsSteeredFromItsOwnPageOnly(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	e := l.stand("reports", "worker-1")
	l.stand("reports", "worker-2")
	base, _ := startServing(t, []string{"NATS_URL=" + l.url}, "dash", "--allow-control", "--http", "127.0.0.1:0", "--timeout", "60s")
	term := e.Term().Number
	for name, c := range map[string]struct {
		header map[string]string
		want   int
	}{
		"another origin":         {map[string]string{"Origin": "http://evil.example"}, 403},
		"another port":           {map[string]string{"Origin": "http://127.0.0.1:1"}, 403},
		"a sandbox":              {map[string]string{"Origin": "null"}, 403},
		"another site":           {map[string]string{"Sec-Fetch-Site": "cross-site"}, 403},
		"another host's site":    {map[string]string{"Sec-Fetch-Site": "same-site"}, 403},
		"a name of its own":      {map[string]string{"Host": "evil.example", "Origin": "http://evil.example"}, 403},
		"a name like ours":       {map[string]string{"Host": "localhost.evil.example"}, 403},
		"a form":                 {map[string]string{"Leader-Dash": ""}, 403},
		"a form of plain text":   {map[string]string{"Content-Type": "text/plain"}, 415},
		"a form, url-encoded":    {map[string]string{"Content-Type": "application/x-www-form-urlencoded"}, 415},
		"a content type of none": {map[string]string{"Content-Type": ""}, 415},
	} {
		if code, _, body := stepDown(term, c.header).ask(t, base); code != c.want {
			t.Errorf("%s: status %d, want %d: %s", name, code, c.want, body)
		}
	}
	for name, body := range map[string]string{
		"another operation": `{"op":"retire","group":"reports","term":"1"}`,
		"a term to pause":   `{"op":"pause","group":"reports","term":"1"}`,
		"no term":           `{"op":"step-down","group":"reports"}`,
		"a field too many":  `{"op":"step-down","group":"reports","term":"1","force":true}`,
		"no JSON":           `op=step-down`,
		"too much":          strings.Repeat(" ", 10_000) + stepDown(term, nil).body,
		"a bad group":       `{"op":"step-down","group":"a b","term":"1"}`,
		"no instance":       `{"op":"drain"}`,
		"a group to drain":  `{"op":"drain","instance":"worker-1","group":"reports"}`,
		"an instance more":  `{"op":"pause","instance":"worker-1","group":"reports"}`,
		"a long reason":     `{"op":"drain","instance":"worker-1","why":"` + strings.Repeat("x", 600) + `"}`,
	} {
		v := stepDown(term, nil)
		v.body = body
		if code, _, answer := v.ask(t, base); code != http.StatusBadRequest {
			t.Errorf("%s: status %d, want 400: %s", name, code, answer)
		}
	}
	if !e.IsLeader() || e.Term().Number != term {
		t.Fatal("the leader has left")
	}
	code, _, body := stepDown(term, map[string]string{"Sec-Fetch-Site": "same-origin", "Origin": strings.TrimSuffix(base, "/")}).ask(t, base)
	var got struct {
		Leader string  `json:"leader"`
		Gap    float64 `json:"gap_ms"`
	}
	decodeStrictly(t, body, &got)
	if code != http.StatusOK || got.Leader != "worker-2" {
		t.Errorf("status %d: %s", code, body)
	}
	// The term that was on the page is over: who presses twice deposes nobody
	// else.
	if code, _, body := stepDown(term, nil).ask(t, base); code != http.StatusConflict {
		t.Errorf("status %d, want 409: %s", code, body)
	}
}

func TestDashPausesAndResumesAGroup(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	e := l.stand("reports", "worker-1")
	base, _ := startServing(t, []string{"NATS_URL=" + l.url}, "dash", "--allow-control", "--by", "ann", "--http", "127.0.0.1:0", "--timeout", "60s")
	ask := func(op string) (answer struct {
		Leader string  `json:"leader"`
		Gap    float64 `json:"gap_ms"`
	},
	) {
		t.Helper()
		v := stepDown(1, nil)
		v.body = fmt.Sprintf(`{"op":%q,"group":"reports","why":"a migration"}`, op)
		code, _, body := v.ask(t, base)
		if code != http.StatusOK {
			t.Fatalf("%s: status %d: %s", op, code, body)
		}
		decodeStrictly(t, body, &answer)
		return answer
	}
	if got := ask("pause"); got.Leader != "" || e.IsLeader() {
		t.Errorf("paused: %+v, leads: %v", got, e.IsLeader())
	}
	control, err := leader.NewControl(l.nc, labBucket, "test")
	if err != nil {
		t.Fatal(err)
	}
	defer control.Close()
	if s, err := control.State(l.within(), "reports"); err != nil || s.PausedBy != "ann" || s.PausedWhy != "a migration" {
		t.Errorf("state %+v, error %v", s, err)
	}
	if got := ask("resume"); got.Leader != "worker-1" || got.Gap <= 0 {
		t.Errorf("resumed: %+v", got)
	}
}

func TestDashDrainsAnInstance(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	l.stand("reports", "worker-1")
	l.stand("reports", "worker-2")
	base, _ := startServing(t, []string{"NATS_URL=" + l.url}, "dash", "--allow-control", "--by", "ann", "--http", "127.0.0.1:0", "--timeout", "60s")
	hear := listen(t, base)
	hear(func(n news) bool { return n.leads("worker-1") })
	ask := func(op string) {
		t.Helper()
		v := stepDown(1, nil)
		v.body = fmt.Sprintf(`{"op":%q,"instance":"worker-1","why":"a kernel"}`, op)
		if code, _, body := v.ask(t, base); code != http.StatusOK {
			t.Fatalf("%s: status %d: %s", op, code, body)
		}
	}
	ask("drain")
	shown, handed := false, false
	hear(func(n news) bool {
		shown = shown || slices.Equal(n.Drains, []drained{{"worker-1", `drained, by "ann" ("a kernel")`}})
		handed = handed || n.leads("worker-2")
		return shown && handed
	})
	ask("undrain")
	hear(func(n news) bool { return n.Status.Drained == "" && len(n.Drains) == 0 })
	l.run(0, "undrain", "worker-1", "--yes") // which prints nothing-asked
}

func TestDashWithoutAllowControlOnlyShows(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	e := l.stand("reports", "worker-1")
	base, _ := startServing(t, []string{"NATS_URL=" + l.url}, "dash", "--http", "127.0.0.1:0")
	if code, _, body := stepDown(e.Term().Number, nil).ask(t, base); code != http.StatusForbidden || !strings.Contains(body, "--allow-control") {
		t.Errorf("status %d: %s", code, body)
	}
	// Seeing the candidates takes no right to steer.
	if code, _, body := (visit{http.MethodGet, "/api/candidates?group=reports", "", nil}).ask(t, base); code != http.StatusOK || !strings.HasPrefix(body, `{"candidates":[`) {
		t.Errorf("status %d for candidates: %s", code, body)
	}
	if !e.IsLeader() {
		t.Error("the leader has left")
	}
}

func TestDashDemandsItsTokenOffLoopback(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	for name, c := range map[string]struct {
		args []string
		say  string
	}{
		"every address": {[]string{"--http", ":0"}, "--http :0"},
		"IPv6":          {[]string{"--http", "[::]:0"}, "--dash-token"},
		"a name":        {[]string{"--http", "example.com:80"}, "--dash-token"},
		"too short":     {[]string{"--dash-token", "12345"}, "at least 16"},
		"no port":       {[]string{"--http", "127.0.0.1"}, "HOST:PORT"},
	} {
		code, out, stderr := runProgram(t, []string{"NATS_URL=" + l.url}, append([]string{"dash"}, c.args...)...)
		if code != 2 || out != "" || !strings.Contains(stderr, c.say) || strings.Contains(stderr, "12345") {
			t.Errorf("%s: exit status %d, stdout %q, stderr %q", name, code, out, stderr)
		}
	}
	const token = "correct-horse-battery"
	e := l.stand("reports", "worker-1")
	base, _ := startServing(t, []string{"NATS_URL=" + l.url, "LEADER_DASH_TOKEN=" + token}, "dash", "--http", "0.0.0.0:0", "--allow-control")
	at, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	forged := map[string]string{"Cookie": "leader_dash_" + at.Port() + "=9999999999.00"}
	for _, v := range []visit{
		{http.MethodGet, "/api/events", "", nil},
		{http.MethodGet, "/api/events?token=" + token, "", nil}, // URLs are logged
		{http.MethodGet, "/api/candidates?group=reports", "", map[string]string{"Authorization": "Bearer " + token + "x"}},
		{http.MethodGet, "/api/candidates?group=reports", "", forged},
		{http.MethodGet, "/api/candidates?group=reports", "", map[string]string{"Authorization": "Bearer "}},
		stepDown(e.Term().Number, nil),
	} {
		if code, header, body := v.ask(t, base); code != http.StatusUnauthorized || header.Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("%s %s %v: status %d: %s", v.method, v.path, v.header, code, body)
		}
	}
	if code, header, _ := (visit{http.MethodGet, "/", "", nil}).ask(t, base); code != http.StatusSeeOther || header.Get("Location") != "login" {
		t.Errorf("status %d to %q", code, header.Get("Location"))
	}
	bearer := map[string]string{"Authorization": "Bearer " + token}
	if code, _, body := (visit{http.MethodGet, "/api/candidates?group=reports", "", bearer}).ask(t, base); code != http.StatusOK {
		t.Errorf("with the token: status %d: %s", code, body)
	}
	// A token protects the page under every name that it is reached by.
	named := map[string]string{"Authorization": "Bearer " + token, "Host": "elections.example"}
	if code, _, body := (visit{http.MethodGet, "/api/candidates?group=reports", "", named}).ask(t, base); code != http.StatusOK {
		t.Errorf("with the token, by another name: status %d: %s", code, body)
	}
	form := map[string]string{"Content-Type": "application/x-www-form-urlencoded"}
	for name, v := range map[string]visit{
		"another token":    {http.MethodPost, "/login", url.Values{"token": {"wrong-horse-battery"}}.Encode(), form},
		"none":             {http.MethodPost, "/login", "", form},
		"the token in URL": {http.MethodPost, "/login?token=" + token, "", form},
	} {
		if _, header, _ := v.ask(t, base); header.Get("Location") != "login?wrong" || header.Get("Set-Cookie") != "" {
			t.Errorf("login with %s: to %q, cookie %q", name, header.Get("Location"), header.Get("Set-Cookie"))
		}
	}
	// A link to a group outlives the question for the token; nothing else does,
	// least of all to another site.
	for path, want := range map[string]string{
		"/?group=reports":                "login?group=reports",
		"/?group=//evil.example":         "login?group=%2F%2Fevil.example",
		"/?group=%22%3E%3Cscript%3E":     "login",
		"/?next=https://evil.example":    "login",
		"/?group=a.b&token=x&group=more": "login?group=a.b",
	} {
		if _, header, _ := (visit{http.MethodGet, path, "", nil}).ask(t, base); header.Get("Location") != want {
			t.Errorf("%s: to %q, want %q", path, header.Get("Location"), want)
		}
	}
	for path, want := range map[string]string{"/login?group=a.b": "./?group=a.b", "/login?group=//evil.example": "./?group=%2F%2Fevil.example"} {
		if _, header, _ := (visit{http.MethodPost, path, url.Values{"token": {token}}.Encode(), form}).ask(t, base); header.Get("Location") != want {
			t.Errorf("%s: to %q, want %q", path, header.Get("Location"), want)
		}
	}
	if _, _, body := (visit{http.MethodGet, "/login?wrong", "", nil}).ask(t, base); !strings.Contains(body, "not the token") {
		t.Errorf("after a wrong token: %s", body)
	}
	_, header, _ := (visit{http.MethodPost, "/login", url.Values{"token": {token}}.Encode(), form}).ask(t, base)
	cookie := header.Get("Set-Cookie")
	if !strings.Contains(cookie, "HttpOnly") || !strings.Contains(cookie, "SameSite=Strict") || strings.Contains(cookie, token) {
		t.Fatalf("cookie %q", cookie)
	}
	name, _, _ := strings.Cut(cookie, ";")
	if code, _, _ := (visit{http.MethodGet, "/api/candidates?group=reports", "", map[string]string{"Cookie": name}}).ask(t, base); code != http.StatusOK {
		t.Errorf("with the cookie: status %d", code)
	}
	// The cookie alone does not let another site in.
	if code, _, _ := stepDown(e.Term().Number, map[string]string{"Cookie": name, "Sec-Fetch-Site": "cross-site"}).ask(t, base); code != http.StatusForbidden {
		t.Errorf("another site with the cookie: status %d", code)
	}
	if !e.IsLeader() {
		t.Error("the leader has left")
	}
}

// A reverse proxy may serve the page under a path prefix.
func TestDashWorksBelowAPathOfAProxy(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	const token = "correct-horse-battery"
	base, _ := startServing(t, []string{"NATS_URL=" + l.url, "LEADER_DASH_TOKEN=" + token}, "dash", "--http", "127.0.0.1:0")
	at, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/ops/", http.StripPrefix("/ops", httputil.NewSingleHostReverseProxy(at)))
	proxy := httptest.NewServer(mux)
	defer proxy.Close()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Jar: jar}
	visit := func(what, want string, ask func() (*http.Response, error)) string {
		t.Helper()
		r, err := ask()
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = r.Body.Close() }()
		body, err := io.ReadAll(r.Body)
		if got := r.Request.URL.RequestURI(); err != nil || r.StatusCode != http.StatusOK || got != want {
			t.Fatalf("%s: status %d at %s, want it at %s (%v)", what, r.StatusCode, got, want, err)
		}
		return string(body)
	}
	login := visit("the page", "/ops/login?group=a.b", func() (*http.Response, error) { return client.Get(proxy.URL + "/ops/?group=a.b") })
	if !strings.Contains(login, `action="login?group=a.b"`) {
		t.Fatalf("the form is sent elsewhere: %s", login)
	}
	page := visit("the login", "/ops/?group=a.b", func() (*http.Response, error) {
		return client.PostForm(proxy.URL+"/ops/login?group=a.b", url.Values{"token": {token}})
	})
	script := visit("the script", "/ops/dash.js", func() (*http.Response, error) { return client.Get(proxy.URL + "/ops/dash.js") })
	for _, text := range []string{login, page, script} {
		if at := regexp.MustCompile(`(href=|src=|action=|fetch\(|EventSource\(|assign\()["\x60]/`).FindString(text); at != "" {
			t.Errorf("a path begins at the root: %s", at)
		}
	}
}

func TestDashForbidsWhatItsPageDoesNotNeed(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	base, stop := startServing(t, []string{"NATS_URL=" + l.url}, "dash", "--http", "127.0.0.1:0")
	for _, path := range []string{"/", "/dash.js", "/dash.css", "/icon.svg", "/login", "/nothing"} {
		_, header, body := (visit{http.MethodGet, path, "", nil}).ask(t, base)
		policy := header.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "require-trusted-types-for 'script'"} {
			if !strings.Contains(policy, want) {
				t.Errorf("%s: policy %q does not contain %s", path, policy, want)
			}
		}
		if strings.Contains(policy, "unsafe") || header.Get("X-Content-Type-Options") != "nosniff" || header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: %v", path, header)
		}
		if strings.Contains(body, " style=") || strings.Contains(body, " onclick=") || strings.Contains(body, "://") && !strings.Contains(body, "http://www.w3.org/2000/svg") {
			t.Errorf("%s has what its own policy forbids, or needs another site", path)
		}
	}
	if code := stop(); code != 0 {
		t.Errorf("exit status %d after an interrupt", code)
	}
}

// A drained is an instance that campaigns for nothing.
type drained struct{ Instance, Words string }

// A news is a message of the stream, as far as the test looks at it.
type news struct {
	Whole  bool `json:"whole"`
	Status struct {
		Failure string `json:"failure"`
		Drained string `json:"drained"`
		Past    struct {
			Since  int64  `json:"since"`
			Stream string `json:"stream"`
			Why    string `json:"why"`
		} `json:"past"`
	} `json:"status"`
	Groups []struct {
		Group  string `json:"group"`
		Leader string `json:"leader"`
		Term   string `json:"term"`
		Paused *struct {
			By  string `json:"by"`
			Why string `json:"why"`
		} `json:"paused"`
		Terms []struct {
			Leader string `json:"leader"`
			Reason string `json:"reason"`
			Began  int64  `json:"began"`
			Ended  int64  `json:"ended"`
		} `json:"terms"`
	} `json:"groups"`
	Drains  []drained `json:"drains"`
	Gone    []string  `json:"gone"`
	Renewed []struct {
		Group string `json:"group"`
		Left  int64  `json:"left"`
	} `json:"renewed"`
}

// leads reports whether the news show that id leads reports.
func (n news) leads(id string) bool {
	for _, g := range n.Groups {
		if g.Group == "reports" && g.Leader == id {
			return true
		}
	}
	return false
}

func TestDashStreamsTheStateFirstAndThenChanges(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	first := l.stand("reports", "worker-1")
	l.stand("reports", "worker-2")
	base, _ := startServing(t, []string{"NATS_URL=" + l.url}, "dash", "--http", "127.0.0.1:0")
	early := listen(t, base)
	if n := early(func(news) bool { return true }); !n.Whole {
		t.Errorf("the first message is not the state of everything: %+v", n)
	}
	early(func(n news) bool { return len(n.Renewed) > 0 })
	if err := first.Transfer(l.within(), "worker-2"); err != nil {
		t.Fatal(err)
	}
	early(func(n news) bool { return !n.Whole && n.leads("worker-2") })
	late := listen(t, base)
	if n := late(func(news) bool { return true }); !n.Whole || !n.leads("worker-2") {
		t.Errorf("who comes late gets %+v", n)
	}
}

func TestDashShowsTheTermsOfBeforeItsStart(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	l.run(0, "history", "enable")
	begin := time.Now().Truncate(time.Millisecond)
	first := l.stand("reports", "worker-1", l.answering())
	l.stand("reports", "worker-2", l.answering())
	if err := first.Transfer(l.within(), "worker-2"); err != nil {
		t.Fatal(err)
	}
	l.awaitHistory("reports", func(p read.Past) bool { return len(p.Terms) == 2 && !p.Terms[1].Began.IsZero() })
	before := time.Now()
	base, _ := startServing(t, []string{"NATS_URL=" + l.url}, "dash", "--http", "127.0.0.1:0")
	n := listen(t, base)(func(n news) bool { return len(n.Groups) == 1 && len(n.Groups[0].Terms) == 2 })
	old, now := n.Groups[0].Terms[0], n.Groups[0].Terms[1]
	if old.Leader != "worker-1" || old.Reason != "transferred" || old.Began < begin.UnixMilli() || old.Ended < old.Began || old.Ended > before.UnixMilli() {
		t.Errorf("the term of before: %+v", old)
	}
	if now.Leader != "worker-2" || now.Ended != 0 || now.Began > before.UnixMilli() {
		t.Errorf("the present term, which began before, too: %+v", now)
	}
	if past := n.Status.Past; past.Stream != "LEADER_HISTORY_leaders" || past.Why != "" || past.Since > begin.UnixMilli() {
		t.Errorf("%+v", past)
	}
}

// A bucket that is not there yet, or a server that is not ready, is tried again.
func TestDashRecallsAlsoWhatItCouldNotReadAtFirst(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	l.run(0, "history", "enable")
	for i, event := range []leader.Event{leader.EventPromoted, leader.EventDemoted} {
		data, err := json.Marshal(advisory.Advisory{
			Version: 1, ID: fmt.Sprint("run-", i+1), Seq: uint64(i + 1), Time: time.Now(), Bucket: labBucket, Group: "reports",
			Instance: "a", Event: event, Term: 1, Leader: "a", Reason: leader.ReasonResigned, Correlation: "00000000",
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.js.Publish(l.within(), advisory.Subject(labBucket, event, "reports"), data); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.js.DeleteKeyValue(l.within(), labBucket); err != nil {
		t.Fatal(err)
	}
	base, _ := startServing(t, []string{"NATS_URL=" + l.url}, "dash", "--http", "127.0.0.1:0")
	next := listen(t, base)
	next(func(n news) bool { return n.Status.Failure != "" && n.Status.Past.Stream != "" })
	if err := natsstore.EnsureBucket(l.within(), l.js, natsstore.BucketConfig{Bucket: labBucket}); err != nil {
		t.Fatal(err)
	}
	if _, err := l.js.Publish(l.within(), "$KV."+labBucket+".reports", []byte(`{"id":"b","token":"t","ttl":3600000,"term":9,"renewal":1}`)); err != nil {
		t.Fatal(err)
	}
	n := next(func(n news) bool { return len(n.Groups) == 1 && len(n.Groups[0].Terms) == 2 })
	if old := n.Groups[0].Terms[0]; old.Leader != "a" || old.Reason != "resigned" || old.Ended == 0 {
		t.Errorf("%+v", n.Groups[0].Terms)
	}
}

func TestDashWithoutAHistoryShowsSinceWhenItKnows(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	l.stand("reports", "worker-1", l.answering())
	begin := time.Now().Truncate(time.Millisecond)
	base, _ := startServing(t, []string{"NATS_URL=" + l.url}, "dash", "--http", "127.0.0.1:0")
	n := listen(t, base)(func(n news) bool { return n.Status.Past.Why != "" })
	if past := n.Status.Past; past.Stream != "" || !strings.Contains(past.Why, "leader history enable") || past.Since < begin.UnixMilli() {
		t.Errorf("%+v", past)
	}
}

// listen opens the stream. The function that it returns reads on until a
// message fits.
func listen(t *testing.T, base string) func(fits func(news) bool) news {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"api/events", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	if kind := resp.Header.Get("Content-Type"); kind != "text/event-stream" {
		t.Errorf("content type %q", kind)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	return func(fits func(news) bool) news {
		t.Helper()
		for lines.Scan() {
			data, ok := strings.CutPrefix(lines.Text(), "data: ")
			if !ok {
				continue
			}
			var n news
			if err := json.Unmarshal([]byte(data), &n); err != nil {
				t.Fatalf("%v in %s", err, data)
			}
			if fits(n) {
				return n
			}
		}
		t.Fatalf("the stream ended: %v", lines.Err())
		return news{}
	}
}

func TestDashShowsAGroupThatIsPausedBeforeItsFirstLeader(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	l.run(0, "pause", "early", "--yes", "--why", "not yet")
	base, _ := startServing(t, []string{"NATS_URL=" + l.url}, "dash", "--http", "127.0.0.1:0")
	next := listen(t, base)
	n := next(func(n news) bool { return len(n.Groups) > 0 })
	if g := n.Groups[0]; g.Group != "early" || g.Paused == nil || g.Paused.Why != "not yet" || g.Leader != "" {
		t.Errorf("%+v", g)
	}
	l.run(0, "resume", "early", "--yes", "--no-wait")
	if n := next(func(n news) bool { return len(n.Gone) > 0 }); n.Gone[0] != "early" {
		t.Errorf("gone: %q", n.Gone)
	}
}
