package gcsstore

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/objects"
)

// classifyAnswer gives the class of a server's answer to a write that it is
// known to have refused. The others are unknown.
func classifyAnswer(status int) error {
	switch status {
	case http.StatusPreconditionFailed:
		return store.ErrConflict
	case http.StatusConflict, http.StatusTooManyRequests: // more than one write a second, among others
		return store.ErrTransient
	case http.StatusRequestTimeout, 499: // proxies and gateways answer so, too
		return store.ErrUnknown
	}
	if 400 <= status && status < 500 {
		return store.ErrPermanent
	}
	return store.ErrUnknown
}

// classifyWrite gives the class of a failed write.
func classifyWrite(err error, way *objects.Passage) error {
	if answer := answerOf(err); answer != nil {
		return classifyAnswer(answer.Code)
	}
	if way.Stayed() {
		return store.ErrTransient
	}
	return store.ErrUnknown
}

// classifyRead gives the class of a failed read.
func classifyRead(err error) error {
	if answer := answerOf(err); answer != nil && errors.Is(classifyAnswer(answer.Code), store.ErrPermanent) {
		return store.ErrPermanent
	}
	return store.ErrTransient
}

// explain wraps a failure, and adds how to fix it.
func (b *bucket) explain(class, err error) error {
	hint := ""
	if answer := answerOf(err); answer != nil {
		switch answer.Code {
		case http.StatusNotFound:
			hint = ": make the bucket, or set Options.Create (create=true in a URL)"
		case http.StatusForbidden, http.StatusUnauthorized:
			hint = ": the user needs storage.objects.get and storage.objects.list, and to write storage.objects.create and storage.objects.delete" +
				" (see the permissions in package gcsstore)"
		case http.StatusTooManyRequests:
			hint = ": one object takes about one write a second"
		}
	}
	return fmt.Errorf("%w: bucket %s: %w%s", class, b.name, err, hint)
}
