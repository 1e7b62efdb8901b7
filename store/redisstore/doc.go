// Package redisstore keeps the records of elections in Redis.
package redisstore
