// Package mysqlstore keeps the records of elections in a table of MariaDB or
// MySQL.
package mysqlstore
