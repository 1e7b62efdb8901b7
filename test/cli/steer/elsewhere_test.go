package steer_test

import (
	"strings"
	"testing"

	"github.com/seed-ff2cb582/leader/test/natslab"
)

// Behind a leaf node the bucket is that of the hub's domain, and so are the
// subjects of the rights.
func TestBucketOfAnotherDomainIsSteeredAndExamined(t *testing.T) {
	t.Parallel()
	hub := natslab.Start(t, natslab.Domain("hub"), natslab.AcceptLeaves())
	leaf := natslab.StartLeaf(t, hub.LeafAddr(), natslab.Domain("leaf"))
	near := caller{t, []string{"--server", hub.URL(), "--timeout", "30s"}}
	far := caller{t, []string{"--server", leaf.URL(), "--js-domain", "hub", "--timeout", "30s"}}
	var made settings
	far.json(0, &made, "bucket", "create", bucket)
	var again settings
	near.json(0, &again, "bucket", "create", bucket)
	if !made.Created || again.Created || made.FirstSeq != again.FirstSeq {
		t.Errorf("from afar %+v, from near %+v", made, again)
	}
	nc := hub.Connect(t)
	stand(t, nc, "a")
	stand(t, nc, "b")
	var r result
	far.json(0, &r, "step-down", group, "--yes")
	if r.From == nil || r.From.ID != "a" || r.To == nil || r.To.ID != "b" {
		t.Errorf("%+v", r)
	}
	var e examined
	far.json(0, &e, "doctor", "--ttl", "10m", "--role", "candidate", "--role", "operator", "--role", "observer", "--role", "admin")
	if f := of(t, e.Findings, "admin"); e.Group != group || !strings.Contains(f.Text, "$JS.hub.API.STREAM.DELETE.KV_leaders") {
		t.Errorf("group %q, %+v", e.Group, f)
	}
}

func TestDoctorSaysThatJetStreamIsOff(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t, natslab.WithoutJetStream())
	c := caller{t, []string{"--server", srv.URL(), "--timeout", "30s"}}
	var e examined
	c.json(1, &e, "doctor", "--ttl", "10m")
	if f := of(t, e.Findings, "jetstream"); f.Status != "fail" || !strings.Contains(f.Fix, "enable it") {
		t.Errorf("%+v", f)
	}
	if f := of(t, e.Findings, "bucket"); f.Status != "fail" {
		t.Errorf("%+v", f)
	}
	if f := of(t, e.Findings, "round-trip"); f.Status != "ok" {
		t.Errorf("%+v", f)
	}
}
