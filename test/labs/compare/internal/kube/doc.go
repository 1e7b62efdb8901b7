// Package kube tests client-go's own loop over locks of package leaderkube. It
// is in this module since that has client-go's leader election among its
// dependencies, whose compilation takes a minute and a half.
package kube
