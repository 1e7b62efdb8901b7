// Package k8sdiscovery keeps the leader's entry in Kubernetes: an EndpointSlice
// of a Service without a selector, so that the Service leads to the leader,
// and, if that is wanted, a label on the leader's pod.
//
//	a, err := k8sdiscovery.New(config, k8sdiscovery.Options{
//		Namespace: "apps", Service: "reports-leader", Pod: podName, PodUID: podUID,
//	})
//	...
//	go discovery.Keep(ctx, election, a, discovery.Options{})
//
// The Service is the user's to make:
//
//	apiVersion: v1
//	kind: Service
//	metadata: {name: reports-leader}
//	spec: {ports: [{port: 80}]}   # no selector
//
// kube-proxy sends what arrives there to the addresses in the slice, which has
// the Service's name and "-leader" added to it. ElectionConfig.Address is the
// pod's IP address and the port, 10.1.2.3:8080 (the downward API's
// status.podIP).
//
// # The slice, or the label
//
// A pod that carries [Options].Label is for a Service with a selector, for
// people (kubectl get pods -l leader=true) and for policies. It is the looser
// of the two: the API server compares the version of the pod with it and
// nothing else, so that a leader that was frozen may label its pod late, until
// the present leader's next look. And it needs the right to patch pods, which
// is the right to replace their images: RBAC knows no smaller one. All that
// announce for one Service are to have the same label: one without it ends an
// entry and leaves the label to the others, which then see nothing to do.
//
// # What Kubernetes adds to the guarantees
//
// Every write of the slice states its uid and resourceVersion. A slice of that
// name that somebody else has made is left alone, and Look returns an error. A
// slice that is withdrawn remains, without endpoints, and remembers its term,
// so that an earlier term's late write is refused then, too.
//
// An EndpointSlice does not expire, and Kubernetes does not delete it because
// its leader is dead. So a live process has to: another candidate, the next
// leader, or a follower (discovery.Follow, leader announce). Run a follower
// beside the candidates, in separate pods, and a dead leader's entry goes with
// its lease, also where no candidate is left: deploy/announce does so.
//
// Without a follower, where all candidates are dead at once, the slice goes on
// naming the last leader's address, until a candidate starts again, or until
// the last leader's pod is deleted: it owns the slice, and Kubernetes' garbage
// collector deletes what has lost its owner. A pod that is only restarted keeps
// its address, and then refuses connections. A Service with the label for a
// selector is the other way: Kubernetes takes from it a pod that is not ready.
// It has to be another one than [Options].Service, whose slice Kubernetes would
// unite with what is selected: deploy/label has both.
//
// # Permissions
//
// In the Service's namespace, for the slice alone:
//
//   - apiGroups: [discovery.k8s.io]
//     resources: [endpointslices]
//     verbs: [create]
//   - apiGroups: [discovery.k8s.io]
//     resources: [endpointslices]
//     resourceNames: [reports-leader-leader]
//     verbs: [get, update, delete, watch]
//
// delete is used where leaders' addresses are of both IPv4 and IPv6, watch for
// the one name alone. With a label:
//
//   - apiGroups: [""]
//     resources: [pods]
//     verbs: [list, patch]
package k8sdiscovery
