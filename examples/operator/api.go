package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func groupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: "leader.example", Version: "v1"}
}

func addToScheme(s *runtime.Scheme) {
	s.AddKnownTypes(groupVersion(), &LeaderGroup{}, &LeaderGroupList{})
	metav1.AddToGroupVersion(s, groupVersion())
}

// A LeaderGroup asks for a ConfigMap that shows who leads a group: its name is
// the LeaderGroup's with leadergroup- before it.
type LeaderGroup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec   LeaderGroupSpec   `json:"spec"`
	Status LeaderGroupStatus `json:"status"`
}

// A LeaderGroupSpec names a group of elections.
type LeaderGroupSpec struct {
	// Group is the election's name.
	Group string `json:"group"`
	// Bucket is the NATS bucket of its records; the operator's own if empty.
	Bucket string `json:"bucket,omitempty"`
}

// A LeaderGroupStatus is who leads, as the operator saw it.
type LeaderGroupStatus struct {
	Leader string `json:"leader,omitempty"`
	Term   int64  `json:"term,omitempty"`
	// Since is when the operator first saw this leader in this term.
	Since *metav1.Time `json:"since,omitempty"`
	// LastChange is when the leader, or its term, last changed.
	LastChange *metav1.Time `json:"lastChange,omitempty"`
	// OperatorTerm is the operator's own term. The API server refuses a status
	// with an older one.
	OperatorTerm int64              `json:"operatorTerm,omitempty"`
	Conditions   []metav1.Condition `json:"conditions,omitempty"`
}

// A LeaderGroupList is a list of them.
type LeaderGroupList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []LeaderGroup `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (g *LeaderGroup) DeepCopyObject() runtime.Object {
	c := *g
	g.DeepCopyInto(&c.ObjectMeta)
	c.Status.Since, c.Status.LastChange = g.Status.Since.DeepCopy(), g.Status.LastChange.DeepCopy()
	c.Status.Conditions = make([]metav1.Condition, len(g.Status.Conditions))
	for i := range g.Status.Conditions {
		g.Status.Conditions[i].DeepCopyInto(&c.Status.Conditions[i])
	}
	return &c
}

// DeepCopyObject implements runtime.Object.
func (l *LeaderGroupList) DeepCopyObject() runtime.Object {
	c := *l
	l.DeepCopyInto(&c.ListMeta)
	c.Items = make([]LeaderGroup, len(l.Items))
	for i := range l.Items {
		copied, _ := l.Items[i].DeepCopyObject().(*LeaderGroup) // it is what that returns
		c.Items[i] = *copied
	}
	return &c
}
