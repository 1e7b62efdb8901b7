// Package stores holds no code. The packages below it judge each store of
// package store that has its own module, on the real server: the contract
// (storetest), histories under contention and faults, and elections.
package stores
