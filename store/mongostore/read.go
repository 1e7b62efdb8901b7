package mongostore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/base"
	"github.com/seed-ff2cb582/leader/store/feed"
)

// find reads the documents that fit the filter, and returns the driver's own
// errors.
func (s *Store) find(ctx context.Context, filter bson.D) ([]document, error) {
	cursor, err := s.reads.Find(ctx, append(filter, bson.E{Key: "rev", Value: bson.D{{Key: "$gt", Value: int64(0)}}}))
	if err != nil {
		return nil, err
	}
	var documents []document
	err = cursor.All(ctx, &documents)
	return documents, err
}

// entries returns the states of the registers among the documents. The error
// names each register whose revision no write of this package leaves.
func entries(documents []document) (all []store.Entry, err error) {
	all = make([]store.Entry, 0, len(documents))
	for _, d := range documents {
		switch {
		case !store.ValidKey(d.Key):
		case d.Rev >= limit:
			err = errors.Join(err, fmt.Errorf("%w: key %q: its document has the revision %d, and revisions are below 2^53: delete the document when nobody leads by it",
				store.ErrPermanent, d.Key, d.Rev))
		default:
			all = append(all, d.entry())
		}
	}
	return all, err
}

// hello asks the primary what it is.
func (s *Store) hello(ctx context.Context) (answer hello, err error) {
	err = s.db.RunCommand(ctx, bson.D{{Key: "hello", Value: 1}}).Decode(&answer)
	return answer, err
}

// A source reads for the watches.
type source struct{ s *Store }

// Read implements [feed.Source].
func (src source) Read(ctx context.Context, keys []string) ([]store.Entry, error) {
	if len(keys) == 0 {
		_, err := src.s.hello(ctx)
		return nil, readError(ctx, "hello", err)
	}
	documents, err := src.s.find(ctx, bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: keys}}}})
	if err != nil {
		return nil, readError(ctx, fmt.Sprintf("keys %q", keys), err)
	}
	return entries(documents)
}

// List implements [feed.Source].
func (src source) List(ctx context.Context, pattern string) ([]store.Entry, error) {
	documents, err := src.s.find(ctx, bson.D{{Key: "_id", Value: bson.D{{Key: "$regex", Value: "^" + regexp.QuoteMeta(base.Literal(pattern))}}}})
	if err != nil {
		return nil, readError(ctx, fmt.Sprintf("pattern %q", pattern), err)
	}
	all, _ := entries(documents) // a read of the key itself returns the error
	return all, nil
}

// Follow implements [feed.Follower] by one change stream on the collection,
// whose events name the keys that are to be read.
func (src source) Follow(ctx context.Context, news *feed.News) error {
	s := src.s
	only := mongo.Pipeline{{{Key: "$project", Value: bson.D{{Key: "documentKey", Value: 1}, {Key: "operationType", Value: 1}}}}}
	stream, err := s.reads.Database().Collection(s.opts.Collection).Watch(ctx, only)
	if err != nil {
		return readError(ctx, "watching", err)
	}
	defer func() {
		// A server that hangs must not hold up the closing of the store.
		brief, cancel := context.WithTimeout(context.WithoutCancel(ctx), cmp.Or(s.opts.Timeout, DefaultTimeout))
		defer cancel()
		_ = stream.Close(brief) // the server forgets it by itself
	}()
	news.Begun()
	for stream.Next(ctx) {
		var event struct {
			Key struct {
				ID string `bson:"_id"`
			} `bson:"documentKey"`
		}
		if err := stream.Decode(&event); err != nil || event.Key.ID == "" {
			news.Begun() // the collection was dropped, or something like it: all is read once more
			continue
		}
		news.Changed(event.Key.ID)
	}
	err = stream.Err()
	if err == nil {
		err = context.Cause(ctx)
	}
	if err == nil {
		err = store.ErrTransient // the stream ended: its collection did
	}
	return readError(ctx, "watching", err)
}
