// Package etcdstore keeps the records of elections in etcd.
package etcdstore
