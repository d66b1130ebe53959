// Package httpcache has the rules of HTTP caching as pure functions of headers and times:
// what a shared cache may store and for how long (RFC 9111, 9213, 5861), the Cache-Status
// field (RFC 9211), conditions, ranges and content codings (RFC 9110). It performs no I/O
// and knows no cache.
package httpcache
