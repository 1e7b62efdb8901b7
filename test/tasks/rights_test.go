package tasks_test

import (
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader/tasks"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// The rights of docs/tasks.md suffice for each part. Who submits tasks cannot
// give orders, and a worker cannot write records.
func TestEachPartHasTheRightsThatItNeedsAndNoMore(t *testing.T) {
	t.Parallel()
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
	connect := func(name string) *nats.Conn {
		return srv.Connect(t, nats.UserInfo(name, name), nats.CustomInboxPrefix("_INBOX_"+name))
	}
	open := func(nc *nats.Conn) *tasks.Bucket {
		b, err := tasks.OpenBucket(natslab.Within(t), natslab.JetStream(t, nc), tasks.BucketConfig{Bucket: "work", Group: "g"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.Close)
		return b
	}
	candidate := connect("candidate")
	lead(t, open(candidate), candidate, 1)
	work(t, connect("worker"), "w", echo)
	client := connect("client")
	b := open(client)
	submit(t, b, tasks.Spec{ID: "x", Payload: []byte("p")})
	if s := finished(t, b, "x"); s.Worker != "w" {
		t.Errorf("%+v", s)
	}
	heard := 0
	admin := srv.Connect(t, nats.UserInfo("admin", "admin"))
	sub, err := admin.Subscribe("leader-tasks.to.w.g", func(*nats.Msg) { heard++ })
	if err != nil {
		t.Fatal(err)
	}
	if err := admin.Flush(); err != nil {
		t.Fatal(err)
	}
	for _, nc := range []*nats.Conn{client, connect("worker")} {
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
