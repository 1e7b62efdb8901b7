package s3store

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/objects"
)

// A passage watches one request on its way out. A request that the SDK never
// handed to its HTTP client was never sent.
type passage struct {
	objects.Passage
	handed atomic.Bool
}

// option is for the call: it adds the step right before the HTTP client.
func (p *passage) option(o *s3.Options) {
	step := middleware.DeserializeMiddlewareFunc("Passage",
		func(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (middleware.DeserializeOutput, middleware.Metadata, error) {
			p.handed.Store(true)
			return next.HandleDeserialize(ctx, in)
		})
	o.APIOptions = append(slices.Clip(o.APIOptions), func(stack *middleware.Stack) error {
		return stack.Deserialize.Add(step, middleware.After)
	})
}

// stayed reports whether the request has provably never left.
func (p *passage) stayed() bool { return !p.handed.Load() || p.Stayed() }

// Codes of the server that this package acts on.
const (
	noSuchKey       = "NoSuchKey"
	noSuchBucket    = "NoSuchBucket"
	ownedByYou      = "BucketAlreadyOwnedByYou"
	timeTooSkewed   = "RequestTimeTooSkewed"
	expiredToken    = "ExpiredToken"
	refreshRequired = "TokenRefreshRequired"
	requestTimeout  = "RequestTimeout"
	incompleteBody  = "IncompleteBody"
	slowDown        = "SlowDown"
	malformed       = "AuthorizationHeaderMalformed"
	redirect        = "PermanentRedirect"
)

// code returns the code of a server's refusal, or nothing.
func code(err error) string {
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		return api.ErrorCode()
	}
	return ""
}

// status returns the status of a server's answer, or 0.
func status(err error) int {
	if answer, ok := errors.AsType[*awshttp.ResponseError](err); ok && answer.Response != nil {
		return answer.HTTPStatusCode()
	}
	return 0
}

// classifyAnswer gives the class of a server's answer to a write that it is
// known to have refused. The others are unknown.
func classifyAnswer(status int, code string) error {
	switch code {
	case noSuchKey: // the condition's object is gone
		return store.ErrConflict
	case timeTooSkewed, expiredToken, refreshRequired, slowDown: // the client adapts
		return store.ErrTransient
	case requestTimeout, incompleteBody: // status 400: the request stalled on its way, or lost its end
		return store.ErrUnknown
	}
	switch status {
	case http.StatusPreconditionFailed:
		return store.ErrConflict
	case http.StatusConflict, http.StatusTooManyRequests, http.StatusTemporaryRedirect: // the server asks to repeat
		return store.ErrTransient
	case http.StatusRequestTimeout, 499: // proxies and gateways answer so, too
		return store.ErrUnknown
	case http.StatusMovedPermanently, http.StatusNotImplemented:
		return store.ErrPermanent
	}
	if 400 <= status && status < 500 {
		return store.ErrPermanent
	}
	return store.ErrUnknown
}

// classifyWrite gives the class of a failed write.
func classifyWrite(err error, way *passage) error {
	if way.stayed() {
		return store.ErrTransient
	}
	return classifyAnswer(status(err), code(err))
}

// classifyRead gives the class of a failed read.
func classifyRead(err error) error {
	if errors.Is(classifyAnswer(status(err), code(err)), store.ErrPermanent) {
		return store.ErrPermanent
	}
	return store.ErrTransient
}

// explain wraps a failure, and adds how to fix it.
func (b *bucket) explain(class, err error) error {
	hint := ""
	switch code(err) {
	case noSuchBucket:
		hint = ": make the bucket, or set Options.Create (create=true in a URL)"
	case malformed, redirect:
		hint = ": the bucket is in another region: state it (region= in a URL)"
	case timeTooSkewed:
		hint = ": set the clock of this machine"
	}
	if status(err) == http.StatusForbidden {
		hint = ": the user needs s3:GetObject and s3:ListBucket, and to write s3:PutObject (see the permissions in package s3store)"
	}
	return fmt.Errorf("%w: bucket %s: %w%s", class, b.name, err, hint)
}
