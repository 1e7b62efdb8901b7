// Package manifests applies what the repository has for Kubernetes to a real
// API server.
package manifests
