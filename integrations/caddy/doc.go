// Package caddy puts the cache into Caddy: the module http.handlers.isr, and its directive isr.
//
//	example.com {
//		isr {
//			data /var/lib/caddy/isr
//			stale 1h
//		}
//		reverse_proxy localhost:3000
//	}
//
// Pages are rendered by the handlers behind it, by requests that have nothing of a visitor but
// what is in the key of the page. Build Caddy with it by xcaddy; see docs/caddy.md.
//
// Servers that share a table and a bucket render each page once per expiry, and a purge at one,
// by POST /isr/purge of Caddy's admin API, takes effect on all.
package caddy
