package k8sdiscovery_test

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/kubernetes/k8sdiscovery"
)

func TestEveryRuleOfTheOptionsIsNamed(t *testing.T) {
	config := &rest.Config{Host: "http://127.0.0.1:1"}
	full := k8sdiscovery.Options{Namespace: "apps", Service: "reports", Pod: "p", PodUID: "u", Label: "l"}
	for name, c := range map[string]struct {
		config *rest.Config
		change func(*k8sdiscovery.Options)
		tells  []string // of these fields
	}{
		"all is well":            {config, func(*k8sdiscovery.Options) {}, nil},
		"outside of the pods":    {config, func(o *k8sdiscovery.Options) { o.Pod, o.PodUID, o.Label = "", "", "" }, nil},
		"nothing is there":       {nil, func(o *k8sdiscovery.Options) { *o = k8sdiscovery.Options{} }, []string{"config", "Namespace", "Service"}},
		"a label without a pod":  {config, func(o *k8sdiscovery.Options) { o.Pod, o.PodUID = "", "" }, []string{"Pod"}},
		"a uid without a pod":    {config, func(o *k8sdiscovery.Options) { o.Pod, o.Label = "", "" }, []string{"Pod"}},
		"its slice would remain": {config, func(o *k8sdiscovery.Options) { o.PodUID = "" }, []string{"PodUID"}},
	} {
		t.Run(name, func(t *testing.T) {
			opts := full
			c.change(&opts)
			a, err := k8sdiscovery.New(c.config, opts)
			if a != nil {
				defer a.Close() //nolint:errcheck // nothing is under way
			}
			if (err != nil) != (len(c.tells) > 0) || err != nil && !errors.Is(err, leader.ErrInvalidConfig) {
				t.Fatal(err)
			}
			for _, field := range c.tells {
				if !strings.Contains(err.Error(), field+" ") {
					t.Errorf("%v does not mention %s", err, field)
				}
			}
		})
	}
}
