// Package acme obtains the TLS certificates of a server from a certificate authority (RFC
// 8555), renews them, and answers the authority's challenges at the server's own listeners.
//
//	hosts ── Serve ──► stored? ──no──► order ──► challenge ──► stored certificate ──► renewal
//	                                                 ▲                   │
//	authority ── TLS-ALPN-01 ──► Get ────────────────┤                   ▼
//	          ── HTTP-01 ─────► Answer ──────────────┘      Get, in each handshake
//
// Certificates are obtained for hosts that are known beforehand, never for a name that a
// visitor asks for. A host without a certificate does not delay the others: it is retried
// with exponential backoff for as long as it is served. Renewals begin when a third of the
// lifetime is left, or when the authority says so (ARI, RFC 9773).
//
// Several servers that serve the same hosts share the folder of the storage: one of them
// obtains a certificate under a lock file, and each can answer the challenges of the others.
package acme

// The files:
//
//	acme.go  obtains and renews certificates, answers challenges at the server's own listeners
//	host.go  the retries of a host
//	log.go   brings the log of certmagic to slog
