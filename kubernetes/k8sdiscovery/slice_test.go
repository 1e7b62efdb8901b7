package k8sdiscovery

import "testing"

func TestSliceOfSomebodyElseIsForeign(t *testing.T) {
	a := &Announcer{opts: Options{Namespace: "apps", Service: "reports"}}
	if own := a.empty("reports", 7); own.foreign() {
		t.Errorf("%+v", own)
	}
	for name, c := range map[string]struct {
		labels, notes map[string]string
		foreign       bool
	}{
		"of Kubernetes' controller":       {map[string]string{labelService: "reports", labelManager: "endpointslice-controller.k8s.io"}, nil, true},
		"made by hand":                    {map[string]string{labelService: "reports"}, map[string]string{"note": "x"}, true},
		"of another group":                {map[string]string{labelManager: manager}, map[string]string{noteGroup: "other"}, false},
		"ours, and others took the label": {nil, map[string]string{noteGroup: "reports"}, false},
		"ours, and others took the notes": {map[string]string{labelManager: manager}, nil, false},
	} {
		s := slice{Metadata: metadata{Name: a.name(), Labels: c.labels, Annotations: c.notes}}
		if s.foreign() != c.foreign {
			t.Errorf("%s: foreign %v", name, s.foreign())
		}
	}
}
