package manifests

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/seed-ff2cb582/leader/test/labs/stores/kubelab"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// rights asks the API server for all that an account may do, and compares it
// with what the account has to.
func rights(t *testing.T, srv *kubelab.Server, c *cluster) {
	const namespace = "leader"
	// What Kubernetes lets every user ask.
	everybody := []string{
		"selfsubjectaccessreviews.authorization.k8s.io: create",
		"selfsubjectreviews.authentication.k8s.io: create",
		"selfsubjectrulesreviews.authorization.k8s.io: create",
	}
	c.in(t).account("default")
	for account, own := range map[string][]string{
		"default": nil, // of the pods that have none
		"reports": {
			"leases.coordination.k8s.io reports: get, update, watch",
			"leases.coordination.k8s.io x--5fctl.reports: get, update, watch",
			"leases.coordination.k8s.io: create",
		},
		"announce": {
			"endpointslices.discovery.k8s.io web-direct-leader: delete, get, update, watch",
			"endpointslices.discovery.k8s.io: create",
		},
		"web-label": {
			"endpointslices.discovery.k8s.io web-slice-leader: delete, get, update, watch",
			"endpointslices.discovery.k8s.io: create",
			"pods: list, patch",
		},
		"leadergroup-operator": {
			"configmaps: create, get, list, patch, watch",
			"leadergroups.leader.example: list, watch",
			"leadergroups/finalizers.leader.example: update",
			"leadergroups/status.leader.example: patch",
		},
	} {
		t.Run(account, func(t *testing.T) {
			config := srv.Account(namespace, account)
			for in, want := range map[string][]string{namespace: slices.Concat(everybody, own), "default": everybody} {
				slices.Sort(want)
				if got := rulesOf(t, config, in); !slices.Equal(got, want) {
					t.Errorf("in the namespace %s it may\n%s\nand has to\n%s", in, strings.Join(got, "\n"), strings.Join(want, "\n"))
				}
			}
		})
	}
}

// rulesOf are a user's rights in a namespace, one line for each kind of object
// or named object. URLs that do not address objects (/version, /api) are left
// out.
func rulesOf(t *testing.T, config *rest.Config, namespace string) (all []string) {
	t.Helper()
	review, err := json.Marshal(object{
		"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "spec": object{"namespace": namespace},
	})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := newCluster(t, config).client.Post().AbsPath("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews").
		SetHeader("Content-Type", "application/json").Body(review).Do(natslab.Within(t)).Raw()
	if err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	var answer struct {
		Status struct {
			Incomplete    bool
			ResourceRules []struct{ Verbs, APIGroups, Resources, ResourceNames []string }
		}
	}
	if err := json.Unmarshal(raw, &answer); err != nil || answer.Status.Incomplete {
		t.Fatalf("%v: %s", err, raw)
	}
	verbs := map[string]map[string]bool{}
	for _, rule := range answer.Status.ResourceRules {
		for _, what := range named(rule.APIGroups, rule.Resources, rule.ResourceNames) {
			if verbs[what] == nil {
				verbs[what] = map[string]bool{}
			}
			for _, verb := range rule.Verbs {
				verbs[what][verb] = true
			}
		}
	}
	for what, may := range verbs {
		all = append(all, what+": "+strings.Join(slices.Sorted(maps.Keys(may)), ", "))
	}
	slices.Sort(all)
	return all
}

// named are the kinds of objects, or the objects, of a rule.
func named(groups, resources, names []string) (all []string) {
	for _, group := range groups {
		for _, kind := range resources {
			if group != "" {
				kind += "." + group
			}
			if len(names) == 0 {
				all = append(all, kind)
			}
			for _, name := range names {
				all = append(all, kind+" "+name)
			}
		}
	}
	return all
}
