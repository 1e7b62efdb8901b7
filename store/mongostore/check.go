package mongostore

import (
	"context"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/base"
)

// hello is a server's description of itself.
type hello struct {
	SetName string `bson:"setName"` // of a replica set's member
	Msg     string `bson:"msg"`     // isdbgrid: a mongos
}

// failover is how long a replica set with the default settings may take no
// writes when it loses its primary: electionTimeoutMillis is 10 s, and the
// manual gives 12 s as the usual time.
const failover = 12 * time.Second

// Check implements [store.Checker]. It refuses servers that only speak
// MongoDB's protocol, a server outside of a replica set, and a user without the
// right to read or update the key; nothing is written, so that the right to
// insert is not checked. It warns that the package was not verified, and of a
// lease that a failover outlasts.
func (s *Store) Check(ctx context.Context, req store.CheckRequest) (store.Report, error) {
	s.Pace(req.HeartbeatInterval, req.Key)
	ctx, cancel, err := base.Begin(ctx, s.Store)
	if err != nil {
		return store.Report{}, err
	}
	defer cancel()
	if err := s.genuine(ctx); err != nil {
		return store.Report{}, err
	}
	if err := base.Usable(ctx, s.Store, req); err != nil {
		return store.Report{}, err
	}
	report := store.Report{Warnings: []string{
		"The store for MongoDB was not verified on a server: its guarantees follow MongoDB's manual.",
	}}
	if req.TTL > 0 && req.TTL < failover {
		report.Warnings = append(report.Warnings, fmt.Sprintf("A lease of %v may end while the replica set changes its primary,"+
			" which takes some %v by default. Use a longer TTL.", req.TTL, failover))
	}
	return report, nil
}

// genuine refuses what only speaks the protocol. FerretDB 1 compares, and then
// writes: two rivals may both win.
func (s *Store) genuine(ctx context.Context) error {
	answer, err := s.hello(ctx)
	if err != nil {
		return readError(ctx, "hello", err)
	}
	var build bson.M
	if err := s.db.RunCommand(ctx, bson.D{{Key: "buildInfo", Value: 1}}).Decode(&build); err != nil {
		return readError(ctx, "buildInfo", err)
	}
	for _, name := range []string{"ferretdb", "ferretdbVersion", "ferretdbFeatures", "documentdb", "_t"} {
		if _, is := build[name]; is {
			return fmt.Errorf("%w: the server is not MongoDB (buildInfo has the field %s), and its updates are not known to be atomic: use MongoDB 6 or later", store.ErrPermanent, name)
		}
	}
	if answer.SetName == "" && answer.Msg != "isdbgrid" {
		return fmt.Errorf("%w: the server is not a member of a replica set: it has neither a logical time nor change streams; make it a replica set, of one if need be", store.ErrPermanent)
	}
	return nil
}
