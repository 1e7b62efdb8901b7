package security_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// parsed reads a server configuration of the document, with the files in a
// directory of the test's.
func parsed(t *testing.T, text, dir string) *server.Options {
	t.Helper()
	for _, name := range append(documentedRoles(t), "billing") {
		t.Setenv(strings.ToUpper(name)+"_PASSWORD", name)
	}
	file := filepath.Join(dir, "server.conf")
	text = strings.ReplaceAll(text, "/etc/nats", dir)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	opts, err := server.ProcessConfigFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return opts
}

// configured starts a server of a configuration, but on the loopback interface
// and in the test's directory.
func configured(t *testing.T, opts *server.Options) *lab {
	t.Helper()
	srv := natslab.Start(t, func(o *server.Options) {
		ours := *o
		*o = *opts
		o.Host, o.Port, o.StoreDir, o.NoLog, o.NoSigs = ours.Host, ours.Port, ours.StoreDir, true, true
		o.AuthTimeout, o.TLSTimeout = ours.AuthTimeout, natslab.Patience.Seconds()
	})
	return &lab{tb: t, url: srv.URL()}
}

func TestExampleConfigurationRunsElections(t *testing.T) {
	ca := newAuthority(t)
	ca.issue(t, "server")
	me := ca.issue(t, "client")
	opts := parsed(t, block(t, "## As a server configuration", "conf"), ca.dir)
	if !opts.SyncAlways || opts.TLSConfig.ClientAuth != tls.RequireAndVerifyClientCert {
		t.Errorf("SyncAlways %v, ClientAuth %v", opts.SyncAlways, opts.TLSConfig.ClientAuth)
	}
	l := configured(t, opts)
	l.extra = []nats.Option{nats.RootCAs(ca.file), nats.ClientCert(me.cert, me.key)}
	wholeElection(t, l, republishing)
}

func TestExampleConfigurationGrantsTheRightsOfTheTables(t *testing.T) {
	ca := newAuthority(t)
	ca.issue(t, "server")
	opts := parsed(t, block(t, "## As a server configuration", "conf"), ca.dir)
	var users []string
	for _, u := range opts.Users {
		users = append(users, u.Username)
		grants(t, u.Username, u.Permissions.Publish.Allow, u.Permissions.Subscribe.Allow)
	}
	hasEachRole(t, users)
}

// hasEachRole compares the users of an example with the roles of the document.
func hasEachRole(t *testing.T, users []string) {
	t.Helper()
	slices.Sort(users)
	if want := slices.Sorted(slices.Values(documentedRoles(t))); !slices.Equal(users, want) {
		t.Errorf("the users are %q, and the document gives rights to %q", users, want)
	}
}

// grants compares a user's rights with the table.
func grants(t *testing.T, role string, publish, subscribe []string) {
	t.Helper()
	var pub, sub []string
	for _, r := range rights(t, role, republishing) {
		if r.publish {
			pub = append(pub, r.subject)
		} else {
			sub = append(sub, r.subject)
		}
	}
	for _, x := range []struct{ is, want []string }{{publish, pub}, {subscribe, sub}} {
		is := slices.Sorted(slices.Values(x.is))
		slices.Sort(x.want)
		if !slices.Equal(is, x.want) {
			t.Errorf("%s may use %q, and the table has %q", role, is, x.want)
		}
	}
}

func TestCommandsGrantTheRightsOfTheTables(t *testing.T) {
	t.Parallel()
	text := strings.ReplaceAll(block(t, "## As nsc commands", "sh"), "\\\n", " ")
	var users []string
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if !strings.HasPrefix(line, "nsc add user ") {
			continue
		}
		values := map[string][]string{}
		for i := 3; i+1 < len(words); i += 2 {
			values[words[i]] = append(values[words[i]], strings.Trim(words[i+1], "'"))
		}
		users = append(users, values["--name"]...)
		grants(t, values["--name"][0], values["--allow-pub"], values["--allow-sub"])
	}
	hasEachRole(t, users)
}

// A whole election runs across the accounts' border, and what destroys another
// group's record within an account does nothing across it.
func TestAccountsKeepGroupsApart(t *testing.T) {
	l := configured(t, parsed(t, block(t, "## An account for each group", "conf"), t.TempDir()))
	l.domain = bucket
	wholeElection(t, l, republishing)
	own := join(t, l.connect(candidate), "reports.a", func(c *leader.ElectionConfig) { c.JetStreamDomain = bucket }, ttl(long))
	drain(t, l, "reports.a")
	own.await("is drained", func() bool { return own.Status().Barred == leader.ReasonDrained })
	st := openStore(t, l.connect(operator), natsstore.Options{})
	// The victim is a record that nobody renews.
	if _, err := st.CompareAndSwap(natslab.Within(t), store.Write{Key: bystander, Value: []byte("untouched")}); err != nil {
		t.Fatal(err)
	}
	attacker := l.connect("billing")
	e := join(t, attacker, "b", func(c *leader.ElectionConfig) { c.Group, c.JetStreamDomain = "billing", bucket })
	e.leads()
	e.crash()
	remove := nats.NewMsg("$JS.leaders.API.$KV.leaders.billing")
	remove.Header.Set("KV-Operation", "DEL")
	remove.Data = []byte(vacancy)
	if _, err := natslab.JetStream(t, attacker).PublishMsg(natslab.Within(t), remove); err != nil {
		t.Fatal(err)
	}
	record := func(key string) store.Entry {
		got, err := st.Get(natslab.Within(t), key)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	for _, request := range []string{"STREAM.INFO.KV_leaders", "DIRECT.GET.KV_leaders.$KV.leaders.billing", "$KV.leaders.billing"} {
		heard, err := attacker.SubscribeSync("$KV.leaders." + bystander)
		if err != nil {
			t.Fatal(err)
		}
		if err := attacker.PublishRequest("$JS.leaders.API."+request, "$KV.leaders."+bystander, nil); err != nil {
			t.Fatal(err)
		}
		// The answer arrives where it does no harm.
		if _, err := heard.NextMsgWithContext(natslab.Within(t)); err != nil {
			t.Fatalf("the answer of %s: %v", request, err)
		}
		if got := record(bystander); string(got.Value) != "untouched" {
			t.Errorf("%s had the record overwritten with %q", request, got.Value)
		}
		if err := heard.Unsubscribe(); err != nil {
			t.Error(err)
		}
	}
	for _, subject := range []string{
		"$KV.leaders." + bystander, "$KV.leaders.reports", "leader.leaders.reports",
		"$JS.leaders.API.$KV.leaders.reports", "$JS.leaders.API.$KV.leaders._ctl._drain.reports.a", "$JS.leaders.API.DIRECT.GET.KV_leaders.$KV.leaders.reports",
	} {
		_, err := attacker.RequestWithContext(natslab.Within(t), subject, nil)
		if !errors.Is(err, nats.ErrNoResponders) {
			t.Errorf("publishing to %s: %v", subject, err)
		}
	}
	if got := record(bystander); string(got.Value) != "untouched" {
		t.Errorf("the record is %q", got.Value)
	}
}

func TestBucketOfTheDocumentIsTheLibrarys(t *testing.T) {
	t.Parallel()
	var want jetstream.StreamConfig
	if err := json.Unmarshal([]byte(block(t, "## Making the bucket", "json")), &want); err != nil {
		t.Fatal(err)
	}
	nc := natslab.Start(t).Connect(t)
	js := natslab.JetStream(t, nc)
	config := func() jetstream.StreamConfig {
		s, err := js.Stream(natslab.Within(t), "KV_"+bucket)
		if err != nil {
			t.Fatal(err)
		}
		c := s.CachedInfo().Config
		c.FirstSeq, c.Replicas = 0, 0
		return c
	}
	makeBucket(t, nc, republishing)
	ours := config()
	if err := js.DeleteStream(natslab.Within(t), "KV_"+bucket); err != nil {
		t.Fatal(err)
	}
	want.Replicas = 1
	// The server may still be removing the files of the first.
	natslab.Eventually(t, "the document's bucket is made", func(ctx context.Context) error {
		_, err := js.CreateStream(ctx, want)
		return err
	})
	if is, want := string(encode(t, config())), string(encode(t, ours)); is != want {
		t.Errorf("the document's bucket is\n%s, the library's\n%s", is, want)
	}
	r, err := openStore(t, nc, natsstore.Options{}).Check(natslab.Within(t), store.CheckRequest{TTL: long})
	if err != nil || len(r.Warnings) > 0 || r.Forgetful {
		t.Errorf("%+v, %v", r, err)
	}
}

// The document's way to connect is connect in this package, word for word, and
// works.
func TestDocumentedConnectionWorks(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("connect_test.go")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(source), block(t, "## Connecting", "go")) {
		t.Error("connect_test.go does not hold the document's code")
	}
	ca := newAuthority(t)
	ca.issue(t, "candidate")
	i := newIssuer(t, ca.serve(t))
	i.dir = ca.dir
	i.credentials("candidate", candidate)
	nc, err := connect(i.srv.URL(), ca.dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	natslab.Eventually(t, "connected", func(context.Context) error {
		if !nc.IsConnected() {
			return nc.LastError()
		}
		return nil
	})
}
