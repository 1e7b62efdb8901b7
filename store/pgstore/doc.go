// Package pgstore keeps the records of elections in a PostgreSQL table.
package pgstore
