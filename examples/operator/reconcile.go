package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/leaderkube"
)

type ctrlConfig = rest.Config

// The marks of what is fenced. deploy/fence.yaml has the same names.
const (
	fencedLabel    = "leader.example/fenced"
	termAnnotation = "leader.example/term"
	fieldOwner     = client.FieldOwner("leadergroup-operator")
	// led is the type of the condition that reports whether somebody leads.
	led = "Led"
	// shown is the type of the condition that reports whether the ConfigMap
	// shows it.
	shown = "Shown"
	// prefix begins the names of the ConfigMaps, which share their namespace
	// with all kinds of programs.
	prefix = "leadergroup-"
)

// errForeign: the ConfigMap of a LeaderGroup is somebody else's.
var errForeign = errors.New("it exists, and this LeaderGroup does not own it: delete it, or give the LeaderGroup another name")

// A reconciler brings ConfigMaps and statuses in line with who leads.
type reconciler struct {
	client.Client

	observers *observers
	term      func() leader.Term // the operator's own
	bucket    string
}

func newReconciler(c client.Client, o *observers, l *lock, bucket string) *reconciler {
	return &reconciler{c, o, l.Term, bucket}
}

func (r *reconciler) register(mgr ctrl.Manager) error {
	news := handler.TypedFuncs[place, reconcile.Request]{
		GenericFunc: func(ctx context.Context, e event.TypedGenericEvent[place], q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			for _, name := range r.askers(ctx, e.Object) {
				q.Add(reconcile.Request{NamespacedName: name})
			}
		},
	}
	return ctrl.NewControllerManagedBy(mgr).
		For(&LeaderGroup{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Owns(&corev1.ConfigMap{}).
		WatchesRawSource(source.TypedChannel[place, reconcile.Request](r.observers.events, news)).
		Complete(r)
}

// askers are the LeaderGroups that ask for a group.
func (r *reconciler) askers(ctx context.Context, p place) (names []types.NamespacedName) {
	var all LeaderGroupList
	if err := r.List(ctx, &all); err != nil {
		return nil // each is looked at again by the clock
	}
	for i := range all.Items {
		if r.place(&all.Items[i]) == p {
			names = append(names, client.ObjectKeyFromObject(&all.Items[i]))
		}
	}
	return names
}

func (r *reconciler) place(g *LeaderGroup) place {
	if g.Spec.Bucket != "" {
		return place{g.Spec.Bucket, g.Spec.Group}
	}
	return place{r.bucket, g.Spec.Group}
}

// Reconcile writes what is seen, under the term that the operator has now. A
// write that is late is refused by the server, so that it does not matter how
// long anything takes here.
func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	term := r.term()
	if term.IsZero() {
		return ctrl.Result{}, leaderkube.ErrNotHeld
	}
	var g LeaderGroup
	err := r.Get(ctx, request.NamespacedName, &g)
	switch {
	case apierrors.IsNotFound(err), err == nil && g.DeletionTimestamp != nil:
		r.observers.forget(request.NamespacedName)
		return ctrl.Result{}, nil // its ConfigMap goes with it, by its owner
	case err != nil:
		return ctrl.Result{}, err
	}
	seen, known := r.observers.leader(request.NamespacedName, r.place(&g))
	if g.keeps(known) {
		return ctrl.Result{RequeueAfter: 5 * time.Second}, nil
	}
	unwritten := applyConfigMap(ctx, r.Client, &g, seen, term)
	err = applyStatus(ctx, r.Client, &g, seen, term, unwritten, time.Now())
	// The status reports what is somebody else's, and another try within the
	// minute would find the same.
	if !errors.Is(unwritten, errForeign) {
		err = errors.Join(unwritten, err)
	}
	return ctrl.Result{RequeueAfter: time.Minute}, err
}

// keeps reports whether the status stays as it is: what another operator has
// seen is better than nothing, unless it has seen the group that was named
// before.
func (g *LeaderGroup) keeps(known bool) bool {
	if known {
		return false
	}
	condition := meta.FindStatusCondition(g.Status.Conditions, led)
	return condition != nil && condition.ObservedGeneration == g.Generation
}

// configMapOf is the ConfigMap that a LeaderGroup is to have.
func configMapOf(g *LeaderGroup, seen observation, term leader.Term) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Name: prefix + g.Name, Namespace: g.Namespace,
			Labels:          map[string]string{fencedLabel: "true"},
			Annotations:     map[string]string{termAnnotation: strconv.FormatUint(term.Number, 10)},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(g, groupVersion().WithKind("LeaderGroup"))},
		},
		Data: map[string]string{
			"group": g.Spec.Group, "leader": seen.ID, "term": strconv.FormatUint(seen.Term, 10), "address": seen.Address,
		},
	}
}

// applyConfigMap writes the ConfigMap of a LeaderGroup. The error matches
// errForeign if there is one of that name that the LeaderGroup does not own.
//
// It creates a missing object, which fails if somebody else has done so
// meanwhile, and otherwise changes the very object that it has seen to be its
// own: the uid in a patch is a condition. It reverts others' changes of that
// object.
func applyConfigMap(ctx context.Context, c client.Client, g *LeaderGroup, seen observation, term leader.Term) error {
	want := configMapOf(g, seen, term)
	var stands corev1.ConfigMap
	err := c.Get(ctx, client.ObjectKeyFromObject(want), &stands)
	switch {
	case apierrors.IsNotFound(err):
		err = c.Create(ctx, want, fieldOwner)
	case err == nil && !metav1.IsControlledBy(&stands, g):
		err = errForeign
	case err == nil:
		var change []byte
		if change, err = json.Marshal(map[string]any{
			"metadata": map[string]any{"uid": stands.UID, "labels": want.Labels, "annotations": want.Annotations}, "data": want.Data,
		}); err == nil {
			err = c.Patch(ctx, want, client.RawPatch(types.MergePatchType, change), fieldOwner)
		}
	}
	if err != nil {
		return fmt.Errorf("the ConfigMap %s/%s: %w", want.Namespace, want.Name, err)
	}
	return nil
}

// applyStatus writes the status of a LeaderGroup, if it changed. unwritten is
// why its ConfigMap was not written, nil if it was.
func applyStatus(ctx context.Context, c client.Client, g *LeaderGroup, seen observation, term leader.Term, unwritten error, now time.Time) error {
	s, changed := statusOf(g, seen, term, unwritten, now)
	if !changed {
		return nil
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&s)
	if err != nil {
		return err
	}
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": groupVersion().String(), "kind": "LeaderGroup",
		"metadata": map[string]any{"name": g.Name, "namespace": g.Namespace}, "status": maps.Clone(fields),
	}}
	if err := c.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(u), fieldOwner, client.ForceOwnership); err != nil {
		return fmt.Errorf("the status of %s/%s: %w", g.Namespace, g.Name, err)
	}
	return nil
}

// statusOf is the status that a LeaderGroup is to have, and whether that is
// news.
func statusOf(g *LeaderGroup, seen observation, term leader.Term, unwritten error, now time.Time) (s LeaderGroupStatus, changed bool) {
	s = g.Status
	s.Conditions = append([]metav1.Condition(nil), s.Conditions...)
	condition := metav1.Condition{Type: led, Status: metav1.ConditionTrue, Reason: "Leads", Message: seen.ID + " leads", ObservedGeneration: g.Generation}
	if seen.ID == "" {
		condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, "Vacant", "no leader is known"
	}
	changed = meta.SetStatusCondition(&s.Conditions, condition)
	changed = meta.SetStatusCondition(&s.Conditions, shownOf(g, unwritten)) || changed
	if s.Leader != seen.ID || s.Term != int64(seen.Term) {
		changed = true
		s.Leader, s.Term, s.Since, s.LastChange = seen.ID, int64(seen.Term), nil, &metav1.Time{Time: now}
		if seen.ID != "" {
			s.Since = &metav1.Time{Time: seen.since}
		}
	}
	changed = changed || s.OperatorTerm != int64(term.Number)
	s.OperatorTerm = int64(term.Number)
	return s, changed
}

// shownOf is the condition that reports whether the ConfigMap shows who leads.
func shownOf(g *LeaderGroup, unwritten error) metav1.Condition {
	c := metav1.Condition{Type: shown, Status: metav1.ConditionTrue, Reason: "Written", Message: prefix + g.Name + " shows it", ObservedGeneration: g.Generation}
	switch {
	case errors.Is(unwritten, errForeign):
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, "ForeignConfigMap", unwritten.Error()
	case unwritten != nil:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, "NotWritten", unwritten.Error()
	}
	return c
}
