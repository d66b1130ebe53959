package peer

import (
	"fmt"
	"strings"
	"syscall"
)

// Settings are what a benchmark asks of the caches.
type Settings struct {
	// Memory is the size of the memory tier, in MiB. nginx has none: it leaves that to the kernel.
	Memory int
	// OnDisk is whether there are more pages than fit into the memory tier. Varnish has one tier, and
	// gets a file that it maps into memory then.
	OnDisk bool
}

// Tuned returns the caches as their experts would tune them for many requests of small pages. No cache
// writes an access log. The address behind them keeps connections open.
func Tuned(s Settings) []Peer {
	return []Peer{
		TunedISR(s), tunedNginx(), tunedVarnish(s), tunedTrafficServer(s),
	}
}

// TunedISR returns isr with its defaults, except the size of its memory tier.
func TunedISR(s Settings) Peer {
	return ISR("isr", "--memory", fmt.Sprintf("%dMiB", s.Memory)).Lasting("every page, by fsync, before it counts as stored")
}

// tunedNginx serves hits by sendfile from files that stay open. The key has the coding instead of the
// Vary of the origin, so that a hit is one look-up.
func tunedNginx() Peer {
	files := openFiles()
	return Nginx(fmt.Sprintf(`
worker_processes auto;
worker_rlimit_nofile %d;
events { worker_connections %d; }
`, files, files/4), fmt.Sprintf(`
  sendfile on;
  tcp_nopush on;
  tcp_nodelay on;
  keepalive_requests 100000000;
  keepalive_timeout 1h;
  open_file_cache max=%d inactive=1h;
  open_file_cache_valid 1h;
  open_file_cache_min_uses 1;
  proxy_cache_path DIR/cache levels=1:2 keys_zone=pages:64m inactive=1d use_temp_path=off;
  map $http_accept_encoding $coding { default ""; "~gzip" "gzip"; }
  upstream site {
    server ORIGIN;
    keepalive 128;
    keepalive_requests 100000000;
  }
  proxy_http_version 1.1;
  proxy_set_header Connection "";
  proxy_set_header Accept-Encoding $coding;
  proxy_buffers 8 16k;
`, files*3/4), `
    listen ADDRESS reuseport backlog=4096;
    location / {
      proxy_pass http://site;
      proxy_cache pages;
      proxy_cache_key $request_uri$coding;
      proxy_cache_lock on;
      proxy_cache_background_update on;
      proxy_cache_use_stale updating;
      proxy_ignore_headers Vary;
    }
    location /pass {
      proxy_pass http://site;
    }
`).Lasting("nothing, no fsync")
}

// openFiles returns how many files a process may have open, at most 100,000. Only processes with special
// rights may raise the limit that they start with.
func openFiles() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 1024 // what every system grants
	}
	return min(limit.Max, 100_000)
}

// tunedVarnish writes nothing to its log in shared memory either.
func tunedVarnish(s Settings) Peer {
	storage, durable := fmt.Sprintf("malloc,%dm", s.Memory), "nothing, memory only"
	if s.OnDisk {
		storage, durable = "file,DIR/pages,1g", "nothing, a mapped file that it does not read again"
	}
	return Varnish(`
sub vcl_recv {
  if (req.url ~ "^/pass") { return (pass); }
}
`, "-s", "default="+storage, "-p", "thread_pool_min=500", "-p", "thread_pool_max=5000",
		"-p", "listen_depth=4096", "-p", "timeout_idle=3600", "-p", "vsl_mask="+unlogged()).Lasting(durable)
}

// unlogged returns the tags of Varnish's log that requests and responses write, each after a minus.
func unlogged() string {
	tags := strings.Fields("Begin End Link SessOpen SessClose ReqStart ReqAcct BereqAcct Timestamp VCL_call VCL_return VCL_use " +
		"Hit HitMiss HitPass TTL Length Filters Storage Fetch_Body BackendOpen BackendClose BackendStart Gzip")
	for _, message := range []string{"Req", "Resp", "Bereq", "Beresp"} {
		for _, part := range []string{"Method", "URL", "Protocol", "Status", "Reason", "Header", "Unset"} {
			tags = append(tags, message+part)
		}
	}
	return "-" + strings.Join(tags, ",-")
}

func tunedTrafficServer(s Settings) Peer {
	return TrafficServer("1G", fmt.Sprintf(`
CONFIG proxy.config.cache.ram_cache.size INT %d
CONFIG proxy.config.cache.min_average_object_size INT 8000
CONFIG proxy.config.accept_threads INT 0
CONFIG proxy.config.net.listen_backlog INT 4096
CONFIG proxy.config.http.keep_alive_no_activity_timeout_in INT 3600
CONFIG proxy.config.http.normalize_ae INT 1
CONFIG proxy.config.http.insert_request_via_str INT 0
CONFIG proxy.config.http.insert_response_via_str INT 0
`, s.Memory<<20), "url_regex=^http://.*/pass action=never-cache\n").Lasting("nothing, no fsync")
}
