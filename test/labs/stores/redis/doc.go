// Package redis holds the tests of package redisstore on real Redis servers.
package redis
