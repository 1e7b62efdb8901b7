package k8sdiscovery

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-ff2cb582/leader/discovery"
)

// The labels and annotations of the slice. The first two are Kubernetes' own:
// the first ties it to the Service, the second keeps Kubernetes' controllers
// from touching it.
const (
	labelService = "kubernetes.io/service-name"
	labelManager = "endpointslice.kubernetes.io/managed-by"
	manager      = "leader-discovery"

	noteGroup = "leader/group"
	noteEntry = "leader/entry"
	noteTerm  = "leader/last-term"
)

// The types of addresses of a slice.
const (
	familyIPv4 = "IPv4"
	familyIPv6 = "IPv6"
)

// A slice is what we write of an EndpointSlice, discovery.k8s.io/v1. The
// package k8s.io/api would bring in all of Kubernetes' core types with it.
type slice struct {
	APIVersion  string     `json:"apiVersion"`
	Kind        string     `json:"kind"`
	Metadata    metadata   `json:"metadata"`
	AddressType string     `json:"addressType"`
	Endpoints   []endpoint `json:"endpoints"`
	Ports       []port     `json:"ports"`
}

type metadata struct {
	Name            string            `json:"name"`
	UID             string            `json:"uid,omitempty"`
	ResourceVersion string            `json:"resourceVersion,omitempty"`
	Labels          map[string]string `json:"labels,omitempty"`
	Annotations     map[string]string `json:"annotations,omitempty"`
	OwnerReferences []reference       `json:"ownerReferences,omitempty"`
}

type endpoint struct {
	Addresses  []string   `json:"addresses"`
	Conditions conditions `json:"conditions"`
	TargetRef  *reference `json:"targetRef,omitempty"`
}

type conditions struct {
	Ready       bool `json:"ready"`
	Serving     bool `json:"serving"`
	Terminating bool `json:"terminating"`
}

// A reference is an owner, or the target of an endpoint.
type reference struct {
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	UID        string `json:"uid,omitempty"`
}

type port struct {
	Name     string `json:"name"`
	Port     uint16 `json:"port"`
	Protocol string `json:"protocol"`
}

type deletion struct {
	Preconditions preconditions `json:"preconditions"`
}

type preconditions struct {
	UID             string `json:"uid"`
	ResourceVersion string `json:"resourceVersion"`
}

func (a *Announcer) name() string { return a.opts.Service + "-leader" }

// empty is the slice of a group that nobody leads.
func (a *Announcer) empty(group string, lastTerm uint64) slice {
	return slice{
		APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice", AddressType: familyIPv4,
		Metadata: metadata{
			Name:        a.name(),
			Labels:      map[string]string{labelService: a.opts.Service, labelManager: manager},
			Annotations: map[string]string{noteGroup: group, noteTerm: strconv.FormatUint(lastTerm, 10)},
		},
		Endpoints: []endpoint{}, Ports: []port{},
	}
}

// leaving is the slice of a leader to which it leads no longer, and whose pod
// may have the label still.
func (a *Announcer) leaving(e discovery.Entry, lastTerm uint64) (slice, error) {
	s := a.empty(e.Group, lastTerm)
	return s, s.note(e)
}

// note writes down the entry.
func (s slice) note(e discovery.Entry) error {
	note, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("k8sdiscovery: %w", err)
	}
	s.Metadata.Annotations[noteEntry] = string(note)
	return nil
}

// sliceOf is the slice for a leader.
func (a *Announcer) sliceOf(e discovery.Entry) (slice, error) {
	at, err := netip.ParseAddrPort(e.Address)
	if err != nil || at.Port() == 0 {
		return slice{}, fmt.Errorf("k8sdiscovery: the leader's Address has to be an IP address and a port, and is %q", e.Address)
	}
	s := a.empty(e.Group, e.Term)
	if err := s.note(e); err != nil {
		return slice{}, err
	}
	if at.Addr().Unmap().Is6() {
		s.AddressType = familyIPv6
	}
	to := endpoint{Addresses: []string{at.Addr().Unmap().WithZone("").String()}, Conditions: conditions{Ready: true, Serving: true}}
	if a.opts.Pod != "" {
		to.TargetRef = &reference{Kind: "Pod", Namespace: a.opts.Namespace, Name: a.opts.Pod, UID: a.opts.PodUID}
	}
	if a.opts.PodUID != "" {
		s.Metadata.OwnerReferences = []reference{{APIVersion: "v1", Kind: "Pod", Name: a.opts.Pod, UID: a.opts.PodUID}}
	}
	s.Endpoints = []endpoint{to}
	s.Ports = []port{{Name: a.opts.PortName, Port: at.Port(), Protocol: "TCP"}}
	return s, nil
}

// known is the slice without what an announcer that is in no leader's pod
// cannot know: which pod it is.
func (a *Announcer) known(s slice) slice {
	if a.opts.Pod != "" {
		return s
	}
	s.Metadata.OwnerReferences, s.Endpoints = nil, slices.Clone(s.Endpoints)
	for i := range s.Endpoints {
		s.Endpoints[i].TargetRef = nil
	}
	return s
}

// content is what of a slice is compared: all but its identity, and the labels
// and annotations that are not ours.
func (s slice) content() slice {
	own := func(all map[string]string, names ...string) map[string]string {
		kept := map[string]string{}
		for _, n := range names {
			if v, is := all[n]; is {
				kept[n] = v
			}
		}
		return kept
	}
	m := s.Metadata
	s.APIVersion, s.Kind = "", ""
	s.Metadata = metadata{
		Labels: own(m.Labels, labelService, labelManager), Annotations: own(m.Annotations, noteGroup, noteEntry, noteTerm),
		OwnerReferences: m.OwnerReferences,
	}
	return s
}

// read returns the entry of a slice, and the largest term that it remembers. It
// reports false for a slice that is not the group's.
func (s slice) read(group string) (e discovery.Entry, lastTerm uint64, ok bool) {
	notes := s.Metadata.Annotations
	last, err := strconv.ParseUint(notes[noteTerm], 10, 64)
	if err != nil || notes[noteGroup] != group {
		return e, 0, false
	}
	if notes[noteEntry] == "" {
		return e, last, true
	}
	if err := json.Unmarshal([]byte(notes[noteEntry]), &e); err != nil || e.Group != group || e.Term != last {
		return discovery.Entry{}, 0, false
	}
	return e, last, true
}

// foreign reports whether somebody else has made the slice: it has neither the
// label nor the annotation of every slice that is made here.
func (s slice) foreign() bool {
	_, noted := s.Metadata.Annotations[noteGroup]
	return s.Metadata.Labels[labelManager] != manager && !noted
}

// A version is what a write of the slice demands of what is there: the object,
// its version, and the family of its addresses, which decides how it is
// written.
type version struct{ uid, resource, family string }

func (s slice) version() version {
	return version{s.Metadata.UID, s.Metadata.ResourceVersion, s.AddressType}
}

func (v version) String() string { return strings.Join([]string{v.uid, v.resource, v.family}, "/") }

// versionOf parses the text that String wrote; an absent entry has no version.
func versionOf(s discovery.Standing) (v version) {
	if parts := strings.SplitN(s.Version, "/", 3); len(parts) == 3 {
		v = version{parts[0], parts[1], parts[2]}
	}
	return v
}
