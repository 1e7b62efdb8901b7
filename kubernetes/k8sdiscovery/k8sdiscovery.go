package k8sdiscovery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/discovery"
	"github.com/seed-ff2cb582/leader/kubernetes/internal/transport"
)

// Options are the settings of an [Announcer].
type Options struct {
	// Namespace and Service name the Service that is to lead to the leader.
	// Required.
	Namespace, Service string
	// PortName is the name of the Service's port. Default: it has none.
	PortName string
	// Pod is the name of the pod in which this candidate runs, and PodUID its
	// uid (metadata.name and metadata.uid of the downward API): both or none.
	// The pod owns the slice, which Kubernetes therefore deletes with it.
	// Without them a slice without live candidates outlasts its pod, unless a
	// follower watches the group. An announcer of other candidates, by
	// discovery.Follow, has none, and leaves alone a leader's entry for its own
	// pod.
	Pod, PodUID string
	// Label, optional, is the key of a label that the leader's pod gets, with
	// the value "true", and that is removed from all other pods of the
	// namespace that have this value: so no other group may use it. It needs
	// Pod.
	Label string
}

func (o Options) validate(config *rest.Config) error {
	var errs []error
	check := func(ok bool, field string, value any, rule string) {
		if !ok {
			errs = append(errs, &leader.ConfigError{Field: field, Value: value, Rule: rule})
		}
	}
	check(config != nil, "config", nil, "must not be nil")
	check(o.Namespace != "", "Namespace", "", "is required")
	check(o.Service != "", "Service", "", "is required")
	check(o.Label == "" || o.Pod != "", "Pod", "", "is required with a Label")
	check(o.PodUID == "" || o.Pod != "", "Pod", "", "is required with a PodUID")
	check(o.Pod == "" || o.PodUID != "", "PodUID", "", "is required with a Pod: the slice is to go with it")
	return errors.Join(errs...)
}

// An Announcer writes the leader's entry into one EndpointSlice. It serves one
// group.
type Announcer struct {
	client *rest.RESTClient
	close  func()
	opts   Options
}

var _ discovery.Watcher = (*Announcer)(nil)

// New returns an announcer with its own connections, which Close closes.
// Nothing is sent. The configuration is not changed; its rate limits, content
// types, Timeout, Dial and Transport do not apply.
func New(config *rest.Config, opts Options) (*Announcer, error) {
	if err := opts.validate(config); err != nil {
		return nil, err
	}
	own := rest.CopyConfig(config)
	// It decodes the API server's refusals, and nothing else.
	refusals := runtime.NewScheme()
	metav1.AddToGroupVersion(refusals, schema.GroupVersion{Version: "v1"})
	own.GroupVersion, own.NegotiatedSerializer = &schema.GroupVersion{}, serializer.NewCodecFactory(refusals).WithoutConversion()
	own.ContentType, own.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	own.QPS, own.RateLimiter = -1, nil
	own.WarningHandler, own.WarningHandlerWithContext = rest.NoWarnings{}, nil
	connections, err := transport.New(own)
	if err != nil {
		return nil, fmt.Errorf("k8sdiscovery: config: %w", err)
	}
	wrapped, err := rest.HTTPWrappersForConfig(own, connections)
	if err != nil {
		return nil, fmt.Errorf("k8sdiscovery: config: %w", err)
	}
	client, err := rest.UnversionedRESTClientForConfigAndClient(own, &http.Client{Transport: wrapped})
	if err != nil {
		return nil, fmt.Errorf("k8sdiscovery: config: %w", err)
	}
	return &Announcer{client: client, close: connections.CloseIdleConnections, opts: opts}, nil
}

// Close closes the announcer's connections. Call it after Keep has returned.
func (a *Announcer) Close() error {
	a.close()
	return nil
}

// request prepares a request for an object, or for all of a kind.
func (a *Announcer) request(verb, api, kind, name string) *rest.Request {
	path := []string{api, "namespaces", a.opts.Namespace, kind}
	if name != "" {
		path = append(path, name)
	}
	return a.client.Verb(verb).MaxRetries(0).AbsPath(path...)
}

func (a *Announcer) slices(verb, name string) *rest.Request {
	return a.request(verb, "/apis/discovery.k8s.io/v1", "endpointslices", name)
}

// do sends a request, and decodes the answer.
func do(ctx context.Context, r *rest.Request, body, answer any) error {
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("k8sdiscovery: %w", err)
		}
		r = r.Body(raw)
	}
	result := r.Do(quiet(ctx))
	// Raw's own error leaves out the API server's message.
	if err := result.Error(); err != nil {
		return fmt.Errorf("kubernetes: %w", err)
	}
	raw, err := result.Raw()
	if err != nil {
		return fmt.Errorf("kubernetes: %w", err)
	}
	if err := json.Unmarshal(raw, answer); err != nil {
		return fmt.Errorf("kubernetes: the answer: %w", err)
	}
	return nil
}

// quiet keeps client-go from logging errors that the caller gets.
func quiet(ctx context.Context) context.Context { return klog.NewContext(ctx, logr.Discard()) }

// Look implements [discovery.Announcer].
func (a *Announcer) Look(ctx context.Context, group string) (discovery.Standing, error) {
	var found slice
	err := do(ctx, a.slices(http.MethodGet, a.name()), nil, &found)
	if apierrors.IsNotFound(err) {
		return discovery.Standing{}, nil
	}
	if err != nil {
		return discovery.Standing{}, err
	}
	if found.foreign() {
		return discovery.Standing{}, fmt.Errorf("k8sdiscovery: the EndpointSlice %s/%s is somebody else's (%s: %q): delete it, or choose another Service",
			a.opts.Namespace, a.name(), labelManager, found.Metadata.Labels[labelManager])
	}
	s := discovery.Standing{Version: found.version().String()}
	e, last, ok := found.read(group)
	if !ok {
		s.Damaged = true
		return s, nil
	}
	s.LastTerm = last
	if e.IsZero() {
		return s, nil
	}
	s.Entry = e
	want, err := a.sliceOf(e)
	s.Damaged = err != nil || !reflect.DeepEqual(want.content(), a.known(found).content())
	if a.opts.Label != "" && !s.Damaged {
		pods, err := a.labelled(ctx)
		if err != nil {
			return discovery.Standing{}, err
		}
		s.Damaged = len(pods) != 1 || pods[0].Metadata.Name != a.opts.Pod
	}
	return s, nil
}

// Announce implements [discovery.Announcer]: the slice first, whose version
// decides, then the label.
func (a *Announcer) Announce(ctx context.Context, e discovery.Entry, stands discovery.Standing) error {
	want, err := a.sliceOf(e)
	if err != nil {
		return err
	}
	if _, err := a.put(ctx, want, versionOf(stands)); err != nil {
		return err
	}
	return a.label(ctx, a.opts.Pod)
}

// put replaces the version by the slice. A missing slice is made, and a slice
// for another family of addresses, which is immutable, is made again. It
// returns the new version.
func (a *Announcer) put(ctx context.Context, want slice, v version) (version, error) {
	var stands slice
	if v.uid != "" && v.family != want.AddressType {
		err := do(ctx, a.slices(http.MethodDelete, a.name()), deletion{Preconditions: preconditions{v.uid, v.resource}}, new(struct{}))
		if err != nil {
			return version{}, changed(err, true)
		}
		v = version{}
	}
	if v.uid == "" {
		err := changed(do(ctx, a.slices(http.MethodPost, ""), want, &stands), false)
		return stands.version(), err
	}
	want.Metadata.UID, want.Metadata.ResourceVersion = v.uid, v.resource
	err := changed(do(ctx, a.slices(http.MethodPut, a.name()), want, &stands), true)
	return stands.version(), err
}

// changed classes an error of a write: another object is there by now, or none
// where one should be replaced.
func changed(err error, replacing bool) error {
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || replacing && apierrors.IsNotFound(err) {
		return fmt.Errorf("%w: %w", discovery.ErrChanged, err)
	}
	return err
}

// Withdraw implements [discovery.Announcer]. The slice remains, without
// endpoints. Where there is a label, the slice loses its endpoints first, and
// the entry last: a withdrawal that is cut short shows what is left to do.
func (a *Announcer) Withdraw(ctx context.Context, stands discovery.Standing) error {
	v := versionOf(stands)
	empty := a.empty(stands.Entry.Group, stands.LastTerm)
	empty.AddressType = v.family
	if a.opts.Label == "" {
		_, err := a.put(ctx, empty, v)
		return err
	}
	// A pod that gets the label later than this may be the next leader's.
	pods, unlisted := a.labelled(ctx)
	leaving, err := a.leaving(stands.Entry, stands.LastTerm)
	if err != nil {
		return err
	}
	leaving.AddressType = v.family
	if v, err = a.put(ctx, leaving, v); err != nil {
		return err
	}
	if unlisted != nil {
		return unlisted
	}
	if err := a.unlabel(ctx, pods); err != nil {
		return err
	}
	_, err = a.put(ctx, empty, v)
	return err
}

type pod struct {
	Metadata metadata `json:"metadata"`
}

// labelled are the pods that have the label. A pod with another value of it
// belongs to another group.
func (a *Announcer) labelled(ctx context.Context) ([]pod, error) {
	var found struct{ Items []pod }
	err := do(ctx, a.request(http.MethodGet, "/api/v1", "pods", "").Param("labelSelector", a.opts.Label+"="+labelled), nil, &found)
	return found.Items, err
}

// label has one pod carry the label, and no other.
func (a *Announcer) label(ctx context.Context, name string) error {
	if a.opts.Label == "" {
		return nil
	}
	pods, err := a.labelled(ctx)
	if err != nil {
		return err
	}
	has := func(p pod) bool { return p.Metadata.Name == name }
	others := slices.DeleteFunc(slices.Clone(pods), has)
	// A pod that has changed may just have become the leader's.
	if err := a.unlabel(ctx, others); err != nil && !errors.Is(err, discovery.ErrChanged) {
		return err
	}
	if len(others) < len(pods) {
		return nil
	}
	return a.patch(ctx, name, "", labelled)
}

// unlabel removes the label from pods as they were seen. The error matches
// discovery.ErrChanged if one was another by then.
func (a *Announcer) unlabel(ctx context.Context, pods []pod) (another error) {
	for _, p := range pods {
		err := a.patch(ctx, p.Metadata.Name, p.Metadata.ResourceVersion, nil)
		switch {
		case err == nil, apierrors.IsNotFound(err):
		case apierrors.IsConflict(err):
			another = changed(err, false)
		default:
			return err
		}
	}
	return another
}

const labelled = "true"

// patch sets the label of a pod, or removes it.
func (a *Announcer) patch(ctx context.Context, name, resourceVersion string, value any) error {
	meta := map[string]any{"labels": map[string]any{a.opts.Label: value}}
	if resourceVersion != "" {
		meta["resourceVersion"] = resourceVersion
	}
	r := a.request(http.MethodPatch, "/api/v1", "pods", name).SetHeader("Content-Type", "application/merge-patch+json")
	return do(ctx, r, map[string]any{"metadata": meta}, new(struct{}))
}

// stable is how long a watch lasts at least that the server ends in the usual
// way.
const stable = 3 * time.Second

// errEnded ends a watch that the server ended at once.
var errEnded = errors.New("kubernetes: the API server ended the watch")

// Watch implements [discovery.Watcher].
func (a *Announcer) Watch(ctx context.Context, _ string, changed func()) error {
	for {
		begun := time.Now()
		if err := a.watch(ctx, changed); err != nil {
			return err
		}
		if time.Since(begun) < stable {
			return errEnded
		}
	}
}

// watch runs one watch until the server ends it.
func (a *Announcer) watch(ctx context.Context, changed func()) error {
	// Without a resourceVersion it begins with the current state.
	body, err := a.slices(http.MethodGet, "").Param("watch", "true").Param("fieldSelector", "metadata.name="+a.name()).Stream(quiet(ctx))
	if err != nil {
		return fmt.Errorf("kubernetes: %w", err)
	}
	defer body.Close() //nolint:errcheck // it is only read
	for events := json.NewDecoder(body); ; {
		var ev struct {
			Type   string
			Object struct{ Message string }
		}
		err := events.Decode(&ev)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("kubernetes: the watch: %w", err)
		case ev.Type == "ERROR":
			return fmt.Errorf("%w: %s", errEnded, ev.Object.Message)
		}
		changed()
	}
}
