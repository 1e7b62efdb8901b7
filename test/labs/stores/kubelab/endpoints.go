package kubelab

import (
	"context"
	"encoding/json"
	"net"
	"slices"
	"strconv"

	"k8s.io/client-go/rest"
)

// Endpoints returns, in order, where kube-proxy would send the clients of a
// Service that has one port, of that name.
func Endpoints(ctx context.Context, client *rest.RESTClient, namespace, service, port string) (all []string, err error) {
	found, err := client.Get().AbsPath("/apis/discovery.k8s.io/v1/namespaces/"+namespace+"/endpointslices").
		Param("labelSelector", "kubernetes.io/service-name="+service).Do(ctx).Raw()
	if err != nil {
		return nil, err
	}
	var list struct {
		Items []struct {
			Endpoints []struct {
				Addresses  []string
				Conditions struct{ Ready bool }
			}
			Ports []struct {
				Name string
				Port int
			}
		}
	}
	if err := json.Unmarshal(found, &list); err != nil {
		return nil, err
	}
	for _, s := range list.Items {
		for _, e := range s.Endpoints {
			if e.Conditions.Ready && len(s.Ports) == 1 && s.Ports[0].Name == port {
				all = append(all, net.JoinHostPort(e.Addresses[0], strconv.Itoa(s.Ports[0].Port)))
			}
		}
	}
	slices.Sort(all)
	return all, nil
}
