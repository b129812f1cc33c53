// Package dsn reads Postgres URLs and explains connection failures. It promises that no message of its own contains a
// password, not even of a URL that cannot be read, and that a failure names the address and what to check. It opens no
// connection.
package dsn
