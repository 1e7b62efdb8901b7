package tasks_test

import (
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader/tasks"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// A rightsLab is a server on which each part of group g has the rights of
// docs/guides/tasks.md, and no more.
type rightsLab struct {
	t   *testing.T
	srv *natslab.Server
}

func newRightsLab(t *testing.T) *rightsLab {
	t.Helper()
	inbox := func(name string) string { return "_INBOX_" + name + ".>" }
	store := []string{"$KV.work.t.g.*", "$JS.API.STREAM.INFO.KV_work", "$JS.API.STREAM.MSG.GET.KV_work"}
	users := []*server.User{
		natslab.Admin(),
		natslab.User("candidate", append([]string{
			"$KV.work.m.g", "$JS.API.CONSUMER.CREATE.KV_work.>", "$JS.API.CONSUMER.MSG.NEXT.KV_work.*", "$JS.API.CONSUMER.DELETE.KV_work.*",
			"leader-tasks.all.g", "leader-tasks.to.*.g",
		}, store...), []string{"leader-tasks.up.g", inbox("candidate")}),
		natslab.User("worker", []string{"leader-tasks.up.g"}, []string{"leader-tasks.all.g", "leader-tasks.to.w.g"}),
		natslab.User("client", store, []string{inbox("client")}),
	}
	srv := natslab.Start(t, natslab.Users(users...))
	bucket(t, srv.Connect(t, nats.UserInfo("admin", "admin")), tasks.BucketConfig{})
	return &rightsLab{t, srv}
}

func (l *rightsLab) connect(name string) *nats.Conn {
	l.t.Helper()
	return l.srv.Connect(l.t, nats.UserInfo(name, name), nats.CustomInboxPrefix("_INBOX_"+name))
}

func (l *rightsLab) open(nc *nats.Conn) *tasks.Bucket {
	l.t.Helper()
	b, err := tasks.OpenBucket(natslab.Within(l.t), natslab.JetStream(l.t, nc), tasks.BucketConfig{Bucket: "work", Group: "g"})
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(b.Close)
	return b
}

// The rights of docs/guides/tasks.md suffice for each part. A client that
// submits tasks cannot give orders, and a worker cannot write records.
func TestEachPartHasTheRightsThatItNeedsAndNoMore(t *testing.T) {
	t.Parallel()
	l := newRightsLab(t)
	candidate := l.connect("candidate")
	lead(t, l.open(candidate), candidate, 1)
	work(t, l.connect("worker"), "w", echo)
	client := l.connect("client")
	b := l.open(client)
	submit(t, b, tasks.Spec{ID: "x", Payload: []byte("p")})
	if s := finished(t, b, "x"); s.Worker != "w" {
		t.Errorf("%+v", s)
	}
	heard := 0
	admin := l.srv.Connect(t, nats.UserInfo("admin", "admin"))
	sub, err := admin.Subscribe("leader-tasks.to.w.g", func(*nats.Msg) { heard++ })
	if err != nil {
		t.Fatal(err)
	}
	if err := admin.Flush(); err != nil {
		t.Fatal(err)
	}
	for _, nc := range []*nats.Conn{client, l.connect("worker")} {
		if err := nc.Publish("leader-tasks.to.w.g", []byte("{}")); err != nil {
			t.Fatal(err)
		}
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if err := admin.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := sub.Unsubscribe(); err != nil || heard > 0 {
		t.Errorf("an order of somebody who may give none arrived: %d, %v", heard, err)
	}
}
