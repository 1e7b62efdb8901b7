package k8sstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/base"
)

// Check implements [store.Checker]. It demands that the namespace takes Leases
// of coordination.k8s.io/v1, and that the user may get, create and update the
// key's Lease, which it asks the API server; nothing is written. It warns of a
// user who may not watch, and of a Lease that Kubernetes' own coordinated
// leader election manages.
func (s *Store) Check(ctx context.Context, req store.CheckRequest) (store.Report, error) {
	s.Pace(req.HeartbeatInterval, req.Key)
	ctx, cancel, err := base.Begin(ctx, s.Store)
	if err != nil {
		return store.Report{}, err
	}
	defer cancel()
	if _, err := (source{s.client}).Read(ctx, nil); err != nil {
		return store.Report{}, err
	}
	if req.Key == "" {
		return store.Report{}, nil
	}
	// A read shows what a question about rights does not: that the namespace's
	// name is one, and resource versions are numbers.
	l, err := s.get(ctx, req.Key)
	if err != nil {
		return store.Report{}, s.readError(ctx, fmt.Sprintf("key %q", req.Key), err)
	}
	report := store.Report{Warnings: coordinated(l)}
	denied, err := s.denied(ctx, req)
	if err != nil {
		return store.Report{}, err
	}
	for _, d := range denied {
		if d.verb == "watch" {
			report.Warnings = append(report.Warnings, fmt.Sprintf("The user may not watch the Lease %s, so changes are found by looking:"+
				" allow the verb watch in the namespace %q, or expect handovers to take up to half a heartbeat longer.", d.name, s.opts.Namespace))
		}
	}
	return report, s.refuse(denied, l != nil)
}

// coordinated warns of a Lease whose holder somebody else chooses.
func coordinated(l *lease) []string {
	if l == nil || l.Spec.Strategy == nil {
		return nil
	}
	return []string{fmt.Sprintf("The Lease %s has the strategy %q: Kubernetes' coordinated leader election chooses its holder, too, and changes it. Remove spec.strategy,"+
		" or use another group.", l.Name, *l.Spec.Strategy)}
}

// A right is to do something with a Lease.
type right struct{ verb, name string }

// refuse reports the rights without which there is no election. The right to
// create is not needed for a Lease that exists.
func (c *client) refuse(denied []right, exists bool) error {
	var missing []string
	for _, d := range denied {
		if d.verb == "watch" || d.verb == "create" && exists {
			continue
		}
		missing = append(missing, d.verb+" "+d.name)
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("%w: the user may not %s in namespace %q: a Role there has to allow get, create, update and watch of leases in coordination.k8s.io",
		store.ErrPermanent, strings.Join(missing, ", "), c.opts.Namespace)
}

// denied are the rights that an election needs and the user has not.
func (c *client) denied(ctx context.Context, req store.CheckRequest) ([]right, error) {
	name := c.names.lease(req.Key)
	// A request to create a Lease names none, so that a right to it cannot
	// either.
	needed := []right{{"get", name}, {"update", name}, {"create", ""}, {"watch", name}}
	for _, key := range req.Reads {
		needed = append(needed, right{"get", c.names.lease(key)})
	}
	var denied []right
	for _, r := range needed {
		may, err := c.may(ctx, r)
		if err != nil {
			if errors.Is(err, store.ErrPermanent) {
				return nil, nil // the user may not ask; what is denied shows by itself
			}
			return nil, err
		}
		if !may {
			denied = append(denied, r)
		}
	}
	return denied, nil
}

// may asks the API server whether the user has a right. The question is in
// plain JSON, since the client may know no other API group than its own.
func (c *client) may(ctx context.Context, r right) (bool, error) {
	type attributes struct {
		Namespace string `json:"namespace"`
		Verb      string `json:"verb"`
		Group     string `json:"group"`
		Resource  string `json:"resource"`
		Name      string `json:"name,omitempty"`
	}
	type spec struct {
		Attributes attributes `json:"resourceAttributes"`
	}
	question, err := json.Marshal(struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Spec       spec   `json:"spec"`
	}{"authorization.k8s.io/v1", "SelfSubjectAccessReview", spec{attributes{c.opts.Namespace, r.verb, "coordination.k8s.io", "leases", r.name}}})
	if err != nil {
		return false, fmt.Errorf("%w: %w", store.ErrPermanent, err)
	}
	raw, err := c.api.Verb(http.MethodPost).MaxRetries(0).Throttle(nil).AbsPath("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews").
		SetHeader("Content-Type", "application/json").SetHeader("Accept", "application/json").Body(question).Do(quiet(ctx)).Raw()
	if err != nil {
		return false, c.readError(ctx, "the user's rights", err)
	}
	var answer struct {
		Status struct{ Allowed bool }
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		return false, fmt.Errorf("%w: the user's rights: %w", store.ErrTransient, err)
	}
	return answer.Status.Allowed, nil
}
