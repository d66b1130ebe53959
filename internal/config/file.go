package config

import "time"

// A File is a valid configuration file. Durations of zero mean none, and numbers of zero no
// limit, if the field's help documents it; the library's types may differ.
type File struct {
	Preset string `yaml:"preset" enum:"next,nuxt,astro,sveltekit,react-router,django,rails,laravel,wordpress" help:"Framework of the site: settings for all routes, and routes for paths that must not be cached (isr config preset NAME shows them)." unset:"none" example:"next"`

	Listen []Listener `yaml:"listen" other:"listeners,address,port,addr" max:"16" help:"Addresses of the site." unset:"one listener on 127.0.0.1:8080"`
	Hosts  []string   `yaml:"hosts" max:"1000" format:"host" help:"Hosts to serve: example.com, *.example.com, or * for any. Requests for other hosts get 421. Required if a listener is reachable from other machines." unset:"localhost" example:"[example.com, www.example.com]"`

	ACME ACME `yaml:"acme" other:"letsencrypt,lets_encrypt" help:"Certificates of listeners with acme: one for each of hosts, obtained from a certificate authority and renewed."`

	PublicScheme  string `yaml:"public_scheme" enum:"http,https" help:"Scheme of the public URL of the site, sent to origins as X-Forwarded-Proto: with renders, and with requests of a listener that no other one with tls or acme is beside, unless a trusted proxy states another." unset:"https if a listener has tls or acme, else http" example:"https"`
	CountryHeader string `yaml:"country_header" other:"geo_header" format:"header" help:"Request header in which trusted_proxies state the country of a visitor, which country of routes needs: CF-IPCountry of Cloudflare, CloudFront-Viewer-Country of CloudFront. It is not read from other peers. Name one that the proxies always set: they must not pass on what a visitor sends in it." unset:"none" example:"CF-IPCountry"`
	HSTS          string `yaml:"hsts" format:"hsts" help:"Strict-Transport-Security of responses over https, which replaces the site's: max-age in seconds, includeSubDomains, preload. For this time browsers use only https for the hosts, even without a valid certificate: begin with a short max-age." unset:"none: the header of the site, if it sends one" example:"max-age=31536000; includeSubDomains"`

	Origins  map[string]Origin `yaml:"origins" other:"origin,upstreams,backends,services,sites" max:"100" format:"name" help:"Sites behind the cache, by name."`
	Defaults Settings          `yaml:"defaults" help:"Settings of routes that do not set them themselves. Requests that no route matches have these settings."`
	Routes   []Route           `yaml:"routes" other:"rules,locations,paths" max:"1000" help:"Rules for the pages of the site. The most specific match decides, whatever the order."`

	Protection    `yaml:",inline"`
	Redirects     []Redirect `yaml:"redirects" other:"redirect,moved" max:"1000" help:"Requests that are redirected, before routes (docs/redirects.md). The most specific from decides, whatever the order."`
	RedirectsFile string     `yaml:"redirects_file" other:"redirect_map,redirects_map" format:"path" help:"CSV file of single addresses that are redirected: a line FROM,TO or FROM,TO,STATUS for each, at most 100,000. They take precedence over redirects. It is read at start and at each reload." unset:"none" example:"/etc/isr/old-urls.csv"`

	ErrorPages map[string]string `yaml:"error_pages" other:"errors,error_page" max:"64" format:"errors" help:"Files of the pages that visitors get instead of the texts of isr's own errors, by status: 404, 502, or 4xx and 5xx for all of a kind (docs/errors.md). Each has at most 1MiB, and its name states its type: .html, .txt, .json or .xml. {request_id} in it is the id of the request. They are read at start and at each reload." example:"{404: /etc/isr/404.html, 5xx: /etc/isr/error.html}"`

	Maintenance Maintenance `yaml:"maintenance" other:"maintenance_mode" help:"Maintenance mode: the origins are not called, stored pages are served, also stale ones, and all else gets one page with 503 (docs/maintenance.md)."`

	Store   Store   `yaml:"store" help:"Where pages are stored."`
	Peer    Peer    `yaml:"peer" other:"peers" help:"Direct channel between the servers of a table (docs/fleet.md)." restart:"yes"`
	Admin   Admin   `yaml:"admin" help:"Admin API." restart:"yes"`
	Health  Health  `yaml:"health" help:"Health checks of orchestrators and load balancers, and the shutdown."`
	Metrics Metrics `yaml:"metrics" help:"Metrics for Prometheus (docs/metrics.md)."`
	Draft   Draft   `yaml:"draft" other:"drafts,preview" help:"Links with which editors see unpublished content (docs/drafts.md)."`
	Purge   Purge   `yaml:"purge" help:"Purging by the HTTP method PURGE at the public addresses."`

	Warm Warm `yaml:"warm" other:"warmup,warm_up,prewarm,warming" help:"Rendering pages before visitors ask for them, from a schedule (docs/warm.md)."`

	Notices Notices `yaml:"notices" other:"notifications,alerts,notify" help:"Telling people of problems: failing pages, quarantined content, purges that are not delivered, certificates near their end, stores and origins that do not answer (docs/notices.md)."`

	Regenerate Regenerate `yaml:"regenerate" other:"regeneration,regenerations" help:"Where stale pages are regenerated (docs/queue.md)." restart:"yes"`

	Downstream map[string]Downstream `yaml:"downstream" max:"16" format:"name" help:"Caches in front of the servers that purges, rollbacks and pins are delivered to, by name."`
	Triggers   Triggers              `yaml:"triggers" help:"Purges that other systems ask for."`
	DynamoDB   DynamoDB              `yaml:"dynamodb" help:"The embedded store, served to other programs as DynamoDB." restart:"yes"`
	Log        Log                   `yaml:"log" help:"Log of the server, on standard error."`

	AccessLog AccessLog `yaml:"access_log" other:"accesslog,access_logs" help:"A line for each request (docs/logs.md)."`

	RequestID            string        `yaml:"request_id" default:"misses" enum:"always,misses,errors,off" help:"Responses that name their request in X-Request-Id: always, misses (all but hits), errors (from status 400 on), or off: requests have no ids. Ids come from trusted_proxies or are made, are sent to origins, and are in logs and traces (docs/logs.md)." restart:"yes"`
	Memory               Size          `yaml:"memory" default:"256MiB" max:"1PiB" help:"Size of the page cache in memory; 0 disables it." restart:"from or to 0"`
	Buffers              *Size         `yaml:"buffers" min:"4MiB" max:"1PiB" help:"Bytes that are buffered for requests and responses, of all clients; one client may use a quarter." unset:"a quarter of memory, at least 32MiB" example:"128MiB" restart:"yes"`
	MaxClientConnections int           `yaml:"max_client_connections" min:"1" max:"16777216" help:"Connections that one client, an IPv4 address or an IPv6 /64, may have. Connections of trusted_proxies are not limited; with proxy_protocol, the clients that they name are." unset:"a quarter of the limit of open files, at most 1024" example:"4096"`
	ClientTimeout        time.Duration `yaml:"client_timeout" default:"60s" min:"1s" max:"24h" help:"How long a client may neither read nor send a byte of a body before its connection is closed."`
	FastPath             bool          `yaml:"fast_path" default:"true" help:"Answer hits in memory, and serve other ordinary GET and HEAD requests, on listeners of plain HTTP/1.1 without net/http, Go's HTTP server, which is faster. Not with h2c or proxy_protocol, with traces, or with request_id: always."`
	MinUses              int           `yaml:"min_uses" default:"1" min:"1" max:"100" help:"Store a page only from this request on, counted within half an hour." restart:"yes"`
	MaxBody              Size          `yaml:"max_body" default:"16MiB" min:"1B" max:"1GiB" help:"Largest page that is stored." restart:"yes"`
	MaxHeader            Size          `yaml:"max_header" default:"64KiB" min:"1KiB" max:"128KiB" help:"Largest response header that is stored, where each field counts for its name, its value and 32 bytes; the tags of a page may have as many bytes in addition. Responses with larger ones pass through." restart:"yes"`
	MaxTags              int           `yaml:"max_tags" default:"512" min:"1" max:"2048" help:"How many purge tags a page may have; pages with more pass through." restart:"yes"`
	Lease                time.Duration `yaml:"lease" default:"30s" min:"1s" max:"24h" help:"Duration of a lease: how long a crashed server can delay the regeneration of a page." restart:"yes"`
	Retention            time.Duration `yaml:"retention" default:"30d" min:"1s" max:"3650d" help:"How long a page without requests is kept." restart:"yes"`
	RequestLife          time.Duration `yaml:"request_life" default:"24h" min:"1h" max:"3650d" help:"How long the record of a request with an idempotency key is kept." restart:"yes"`
	Poll                 time.Duration `yaml:"poll" default:"250ms" min:"10ms" max:"5m" help:"Interval at which the log is read for changes by other servers; each read costs one read unit." restart:"yes"`
	MaxBlind             time.Duration `yaml:"max_blind" default:"10s" min:"1s" max:"24h" help:"How long a server that cannot read the log serves pages before blind applies." restart:"yes"`
	Blind                string        `yaml:"blind" default:"serve" enum:"serve,refuse" removed:"revalidate: use refuse if a purged page must never be served, else serve" help:"Response of a server that could not read the log for max_blind: serve (what it has), or refuse (503)." restart:"yes"`
	Build                string        `yaml:"build" format:"build" help:"Id of the build of the site, such as a commit or a date: pages of older builds are stale, and regenerated at their next request." example:"${GIT_COMMIT}" restart:"yes"`

	name    string
	sources map[string]Source
}

// Name returns the name of the file, as Parse got it; empty for a File of another origin.
func (f *File) Name() string { return f.name }

// A Listener is an address of the site.
type Listener struct {
	Address        string        `yaml:"address" default:"127.0.0.1:8080" format:"address" help:"Address to listen on: host:port, or :port for all interfaces."`
	TLS            []Certificate `yaml:"tls" max:"100" help:"Certificates for HTTPS, with HTTP/2; the requested host selects one. Changed files are read again." unset:"plain HTTP"`
	ACME           bool          `yaml:"acme" help:"HTTPS, with HTTP/2, with the certificates that acme obtains, instead of tls."`
	TLSPolicy      TLSPolicy     `yaml:"tls_policy" other:"ssl_policy,tls_options" help:"How handshakes are made with tls or acme."`
	HTTP3          bool          `yaml:"http3" other:"h3,quic" help:"HTTP/3, too, at the same port of UDP, with tls or acme. Responses over TCP announce it (Alt-Svc); visitors whom UDP does not reach stay with HTTP/2."`
	HTTP3Port      int           `yaml:"http3_port" min:"1" max:"65535" help:"Port of UDP by which visitors reach the listener for http3, such as one that a container publishes." unset:"the port of address" example:"443"`
	RedirectHTTPS  bool          `yaml:"redirect_https" default:"true" other:"redirect,https_redirect,force_https" help:"If the listener has neither tls nor acme and another one has: redirect visitors to https, unless a trusted proxy forwards https. Challenges of ACME, health.path and PURGE are answered."`
	H2C            bool          `yaml:"h2c" help:"Accept HTTP/2 without TLS, from clients that begin with it (prior knowledge)."`
	TrustedProxies []string      `yaml:"trusted_proxies" max:"1000" format:"network" help:"Networks whose X-Forwarded-For, X-Forwarded-Proto and Forwarded headers are trusted: a CIDR, loopback or private." example:"[10.0.0.0/8]"`
	ForwardedHost  bool          `yaml:"trust_forwarded_host" other:"forwarded_host,trust_host" help:"Take the host from X-Forwarded-Host, or from host= of Forwarded, of trusted_proxies, and pass X-Forwarded-Port and X-Forwarded-Prefix on. Dangerous unless each of these proxies sets or removes the field: nginx, CloudFront and others pass a visitor's own field on: the visitor then chooses the host of a page that a downstream cache stores under another host."`
	ProxyProtocol  bool          `yaml:"proxy_protocol" help:"Require the PROXY protocol, v1 or v2, on connections from trusted_proxies."`
}

// A Certificate is a pair of PEM files.
type Certificate struct {
	Cert string `yaml:"cert" required:"yes" format:"path" help:"File with the certificate and its chain, in PEM." example:"/etc/isr/example.com.crt"`
	Key  string `yaml:"key" required:"yes" format:"path" help:"File with the private key, in PEM." example:"/etc/isr/example.com.key"`
}

// A TLSPolicy is how a listener with TLS makes handshakes.
type TLSPolicy struct {
	MinVersion string   `yaml:"min_version" other:"min_tls_version,minimum_version" default:"1.2" enum:"1.2,1.3" help:"Oldest version of TLS that is accepted."`
	Curves     []string `yaml:"curves" other:"groups,curve_preferences,ecdh_curves" max:"7" enum:"X25519MLKEM768,SecP256r1MLKEM768,SecP384r1MLKEM1024,X25519,P-256,P-384,P-521" help:"Key exchanges that are accepted, in any order; those with MLKEM are safe from quantum computers. TLS 1.2 needs one without MLKEM." unset:"all" example:"[X25519MLKEM768, X25519, P-256]"`
	TicketKeys string   `yaml:"ticket_keys" other:"session_ticket_keys,ticket_key" format:"path" help:"File with keys of session tickets that servers share, so that a visitor resumes at one a session of another: one key a line, 32 random bytes in base64 (openssl rand -base64 32), at most 16. The first encrypts, all decrypt. A changed file is read again." unset:"keys of this server's own, a new one each day" example:"/etc/isr/ticket-keys"`
}

// Encrypted reports whether the listener serves HTTPS.
func (l Listener) Encrypted() bool { return len(l.TLS) > 0 || l.ACME }

// ACME is how certificates are obtained (RFC 8555).
type ACME struct {
	Email           string          `yaml:"email" required:"yes" format:"email" help:"Address at which the certificate authority reaches the operator of the site." example:"ops@example.com"`
	Agree           bool            `yaml:"agree" help:"Agree to the terms of service of the certificate authority. Nothing is requested from it without true."`
	Directory       string          `yaml:"directory" default:"https://acme-v02.api.letsencrypt.org/directory" format:"url" help:"URL of the ACME directory of the certificate authority: Let's Encrypt, or another one."`
	CAFile          string          `yaml:"ca_file" format:"path" help:"File with the roots, in PEM, that the HTTPS of directory is verified with." unset:"the roots of the system" example:"/etc/isr/internal-ca.crt"`
	Storage         string          `yaml:"storage" format:"path" help:"Folder of account, keys and certificates; only its owner can read it. Servers with the same hosts share it." unset:"acme in store.data; required with store.table" example:"/var/lib/isr/acme"`
	Challenges      []string        `yaml:"challenges" max:"2" enum:"tls-alpn,http" help:"How to prove that the hosts are served here: tls-alpn (TLS-ALPN-01: the authority connects to port 443 of the host, which must reach a listener with acme), which is tried first, or http (HTTP-01: port 80, which must reach a listener without TLS)." unset:"tls-alpn, and http if a listener without TLS has port 80" example:"[http]"`
	ExternalAccount ExternalAccount `yaml:"external_account" help:"External account binding, which some authorities require."`
}

// An ExternalAccount is an account at a certificate authority that ACME accounts belong to.
type ExternalAccount struct {
	KeyID   string `yaml:"key_id" format:"word" help:"Key identifier that the authority has given." unset:"none" example:"kid-1"`
	HMACKey Secret `yaml:"hmac_key" help:"HMAC key that the authority has given, in base64url." example:"{file: /run/secrets/acme-hmac}"`
}

// An Origin is a site behind the cache, at one or more addresses.
type Origin struct {
	URL             []string      `yaml:"url" other:"address,urls,upstream,target,servers" max:"32" format:"origin" help:"URL of the site, or a list of URLs of servers that render the same pages and share the requests (docs/origins.md)." example:"http://127.0.0.1:3000"`
	Balance         string        `yaml:"balance" default:"least" enum:"least,round_robin,first" other:"lb,lb_policy,load_balancing,strategy,policy" help:"How several addresses share requests: least sends each to the one of two random addresses that has fewer open requests for its weight; round_robin to one after another; first to the first that is up, so that the others are for its failure."`
	Weights         []int         `yaml:"weights" min:"1" max:"1000" other:"weight" help:"Weights of the addresses of url, in their order: an address of weight 2 gets twice the requests of an address of weight 1." unset:"1 for each" example:"[2, 1]"`
	SlowStart       time.Duration `yaml:"slow_start" default:"10s" min:"0s" max:"1h" help:"How long an address that is up again gets a growing part of the requests, from a tenth on; 0s: all that it would get, at once."`
	Ejection        Ejection      `yaml:"ejection" other:"eject,outlier_detection,passive_health" help:"Addresses that fail requests while others do not: others get their requests for a time."`
	Host            string        `yaml:"host" format:"originHost" other:"host_header,preserve_host" help:"Host of requests to the origin: visitor, the one that the visitor has requested; url, the one of url; or another one. X-Forwarded-Host is the visitor's." unset:"url for https, else visitor" example:"visitor"`
	TLS             OriginTLS     `yaml:"tls" help:"How https addresses are connected to. Its files are read at start and at each reload."`
	Sticky          Sticky        `yaml:"sticky" other:"session,sticky_session,affinity,session_affinity" help:"Keep the requests of a visitor that pass through at one address, by a cookie."`
	Demo            bool          `yaml:"demo" help:"The built-in demonstration site, instead of url."`
	MaxRenders      int           `yaml:"max_renders" default:"16" min:"0" max:"1048576" help:"Concurrent renders; others queue; 0 means no limit."`
	BreakerFailures int           `yaml:"breaker_failures" default:"10" min:"0" max:"1048576" help:"Consecutive failures of different pages that open the circuit breaker for five seconds; 0 disables it."`
	MaxConnections  int           `yaml:"max_connections" default:"256" min:"4" max:"1048576" help:"Concurrent pass-through requests; a client may use a quarter of them."`
	ConnectTimeout  time.Duration `yaml:"connect_timeout" default:"5s" min:"1ms" max:"10m" help:"Time limit for connecting."`
	ResponseTimeout time.Duration `yaml:"response_timeout" default:"2m" min:"1ms" max:"24h" help:"Time limit for the header of a response to a pass-through request; renders have the render_timeout of their route."`
	Health          HealthCheck   `yaml:"health" help:"Requests that find out which addresses are up."`
}

// An Ejection is how an address of an origin that fails requests is taken out of use.
type Ejection struct {
	Failures int           `yaml:"failures" default:"5" min:"0" max:"1000" help:"Consecutive responses with a status from 500 on (except 501 and 505), or without any in response_timeout, that eject an address, if others answer well and half of the addresses stay in use; 0: none do. An address whose connections fail is ejected at once. If all fail, all are tried."`
	Time     time.Duration `yaml:"time" default:"10s" min:"100ms" max:"1h" help:"How long an address is ejected at first. If it fails again, before it was in use for as long, twice the time. A health check that succeeds after failures ends it."`
	MaxTime  time.Duration `yaml:"max_time" default:"1m" min:"100ms" max:"24h" help:"The longest time that an address is ejected for."`
}

// An OriginTLS is how https addresses of an origin are connected to.
type OriginTLS struct {
	ServerName string `yaml:"server_name" format:"serverName" other:"sni" help:"Name that the certificate of the server must have, and that is sent to it (SNI)." unset:"the host of url" example:"app.internal"`
	CAFile     string `yaml:"ca_file" format:"path" other:"ca" help:"File with the roots, in PEM, that the certificate of the server is verified with." unset:"the roots of the system" example:"/etc/isr/internal-ca.crt"`
	Cert       string `yaml:"cert" format:"path" other:"certificate,client_certificate" help:"File with the client certificate that is shown to the server, in PEM; needs key." unset:"none" example:"/etc/isr/client.crt"`
	Key        string `yaml:"key" format:"path" other:"client_key" help:"File with the private key of cert, in PEM." unset:"none" example:"/etc/isr/client.key"`
	MinVersion string `yaml:"min_version" other:"min_tls_version,minimum_version" default:"1.2" enum:"1.2,1.3" help:"Oldest version of TLS that is accepted."`
}

// Sticky is how a visitor is kept at an address of an origin.
type Sticky struct {
	Cookie string `yaml:"cookie" format:"cookie" help:"Name of the cookie that isr sets in responses that pass through. It is removed from requests: it is in no key, and the origin does not get it. The visitors of an address that is not up get another one." unset:"none: each request goes to any address" example:"isr-address"`
	Secret Secret `yaml:"secret" help:"Secret of at least 16 bytes, the same on all servers, with which the cookie names an address without telling it. Required with cookie." example:"{file: /run/secrets/isr-sticky}"`
}

// A HealthCheck finds out which addresses of an origin are up.
type HealthCheck struct {
	Path     string        `yaml:"path" format:"urlpath" help:"Path that answers with a status from 200 to 399 if the address is up." unset:"addresses are not checked; see ejection" example:"/healthz"`
	Interval time.Duration `yaml:"interval" default:"5s" min:"100ms" max:"1h" help:"Time between two checks of an address."`
	Timeout  time.Duration `yaml:"timeout" default:"2s" min:"10ms" max:"10m" help:"Time limit of a check."`
	Failures int           `yaml:"failures" default:"2" min:"1" max:"100" help:"Consecutive failed checks after which an address is down; one that succeeds ends it."`
}

// A Store is where pages are stored: embedded in a folder, or DynamoDB and S3.
type Store struct {
	Data             string        `yaml:"data" default:"./isr-data" format:"path" help:"Folder of the embedded store, and of the socket that commands use to reach a running server; relative to the working directory." restart:"yes"`
	Disk             *Size         `yaml:"disk" min:"1MiB" max:"1PiB" help:"Size of the embedded store; beyond it the least recently used pages are evicted." unset:"a tenth of the free space, at least 1GiB" example:"10GiB"`
	Table            string        `yaml:"table" format:"word" help:"DynamoDB table for the metadata, instead of the embedded store; needs bucket." example:"pages" restart:"yes"`
	Bucket           string        `yaml:"bucket" format:"word" help:"S3 bucket for the stored bodies; needs table." example:"my-pages" restart:"yes"`
	CacheDir         string        `yaml:"cache_dir" format:"path" help:"Folder on a local disk with copies of the bodies in the bucket, so that each is read from there once; for one server." unset:"none" example:"/var/cache/isr" restart:"yes"`
	CacheSize        *Size         `yaml:"cache_size" min:"1MiB" max:"1PiB" help:"Size of cache_dir; beyond it the least recently used bodies are removed." unset:"10GiB" example:"50GiB"`
	Region           string        `yaml:"region" format:"word" help:"AWS region of table and bucket." unset:"the region of the AWS configuration" example:"eu-west-1" restart:"yes"`
	DynamoDBEndpoint string        `yaml:"dynamodb_endpoint" format:"url" help:"URL of a DynamoDB endpoint other than AWS's." example:"http://127.0.0.1:8000" restart:"yes"`
	S3Endpoint       string        `yaml:"s3_endpoint" format:"url" help:"URL of an S3 endpoint other than AWS's." example:"http://127.0.0.1:9000" restart:"yes"`
	CreateTable      bool          `yaml:"create_table" help:"Create the DynamoDB table if it does not exist." restart:"yes"`
	Require          bool          `yaml:"require" help:"Fail at start if the stores do not answer, instead of serving without them until they do." restart:"yes"`
	Timeout          time.Duration `yaml:"timeout" default:"300ms" min:"1ms" max:"24h" help:"Total time that a request waits for the stores; then the page is rendered without being stored." restart:"yes"`
	Guards           []string      `yaml:"guards" max:"2" enum:"monotonic,version" help:"Additional conditions of writes, for tables that other services write to: monotonic (generated_at grows) or version (the attribute version counts writes)." example:"[monotonic]" restart:"yes"`
}

// Peer is the direct channel between the servers of a table.
type Peer struct {
	Address string `yaml:"address" format:"word" help:"IP address and port at which the other servers reach this one, on a private network, or :7946 for the only private address of the machine. It listens there." unset:"none: servers learn all from the table" example:"10.0.0.5:7946"`
	Secret  Secret `yaml:"secret" help:"Secret of at least 32 bytes that all servers of the table share." example:"{file: /run/secrets/isr-peer}"`
}

// Admin is the admin API.
type Admin struct {
	Address   string `yaml:"address" format:"addressOrNone" help:"Address of the admin API, or none." unset:"127.0.0.1:9180; with store.table only if there is a token" example:"127.0.0.1:9180"`
	Token     Secret `yaml:"token" help:"Token of the admin API." unset:"the token in the file admin.token in the data folder" example:"{file: /run/secrets/isr-admin}"`
	ReadToken Secret `yaml:"read_token" help:"A second token for the admin API and the console, by which nothing can be changed." unset:"none" example:"{file: /run/secrets/isr-read}"`
}

// Health are the health checks of this server, and its shutdown.
type Health struct {
	Address string         `yaml:"address" format:"address" help:"Address of /livez and /readyz, without a token." unset:"none" example:"127.0.0.1:9181"`
	Path    string         `yaml:"path" format:"urlpath" help:"Path at the public addresses that answers like /readyz, without the reasons." unset:"none" example:"/-/ready"`
	Drain   *time.Duration `yaml:"drain" min:"0s" max:"24h" help:"How long to keep serving after SIGTERM while /readyz fails, so that load balancers notice." unset:"5s if a listener is reachable from other machines, else 0s" example:"10s"`
	Grace   *time.Duration `yaml:"grace" min:"0s" max:"24h" help:"How long requests and renders may take to finish at shutdown, after draining." unset:"the longest render_timeout plus 5s" example:"60s"`
}

// Metrics are the metrics for Prometheus.
type Metrics struct {
	Address string `yaml:"address" format:"address" help:"Address of /metrics, without a token. The admin API has it too." unset:"none" example:"127.0.0.1:9182"`
}

// A Redirect sends the requests of a pattern to another URL.
type Redirect struct {
	From   string `yaml:"from" other:"match,source,path" required:"yes" format:"match" help:"Requests that are redirected: a pattern as match of a route has it." example:"/blog/{slug}"`
	To     string `yaml:"to" other:"target,destination,location" required:"yes" format:"word" help:"Where they lead: a path, or a URL of another host; {name} is a wildcard of from, in path and query." example:"/posts/{slug}"`
	Status string `yaml:"status" other:"code" default:"301" format:"moved" help:"Status of the response: 301 and 308 are permanent, 302 and 307 temporary; with 307 and 308 a browser repeats a POST."`
	Query  string `yaml:"query" default:"keep" enum:"keep,drop" help:"Whether the query of the request is added to the URL."`
}

// Maintenance is the maintenance mode of the site.
type Maintenance struct {
	On         bool          `yaml:"on" other:"enabled" help:"Maintenance mode is on, on each server that reads the file. isr maintenance on does the same for one running server, and needs no file."`
	Page       string        `yaml:"page" other:"file" format:"pageFile" help:"File of the page for visitors who get no stored page, at most 1MiB; its name states its type: .html, .txt, .json or .xml. {request_id} in it is the id of the request. It is read at start and at each reload." unset:"a built-in page" example:"/etc/isr/maintenance.html"`
	RetryAfter time.Duration `yaml:"retry_after" default:"5m" min:"1s" max:"30d" help:"Retry-After of that page."`
}

// Purge is purging by the HTTP method PURGE.
type Purge struct {
	Method bool     `yaml:"method" help:"Accept the method PURGE, with the token of the admin API or from the networks of from."`
	From   []string `yaml:"from" max:"1000" format:"network" help:"Networks whose clients may purge without a token: a CIDR, loopback or private." example:"[10.0.0.0/8]"`
}

// A Downstream is a cache in front of the servers.
type Downstream struct {
	To    string `yaml:"to" required:"yes" format:"downstream" help:"Kind and address: cloudfront:DISTRIBUTION, fastly:SERVICE, cloudflare:ZONE, isr:URL or varnish:URL; for options see docs/cdn.md." example:"fastly:SU1Z0isxPaozGVKXdv0eY"`
	Token Secret `yaml:"token" help:"Token of its API." example:"{file: /run/secrets/fastly}"`
}

// Triggers are purges that other systems ask for.
type Triggers struct {
	Hooks  map[string]Hook `yaml:"hooks" max:"100" format:"hookName" help:"Webhooks, accepted at POST /-/hooks/NAME of the admin API's address, by name. See docs/webhooks.md."`
	Public bool            `yaml:"public" help:"Accept webhooks on the public addresses too, on all hosts."`
	Queue  Queue           `yaml:"queue" help:"SQS queue with purge requests or events."`
}

// A Hook is a webhook.
type Hook struct {
	Provider string   `yaml:"provider" required:"yes" enum:"github,contentful,sanity,shopify,generic" help:"The sender, which determines how it is signed." example:"shopify"`
	Secrets  []Secret `yaml:"secrets" required:"yes" max:"2" help:"Secret of the provider; two while it is replaced." example:"[\"${SHOP_HOOK_SECRET}\"]"`
	Targets  []string `yaml:"targets" required:"yes" max:"32" format:"target" help:"What it purges: tag, url, prefix, host or tenant with a value, or all." example:"[\"tag:product-{payload.id}\"]"`
	Hard     bool     `yaml:"hard" help:"Never serve the pages again, instead of making them stale."`
}

// A Queue is an SQS queue.
type Queue struct {
	URL     string   `yaml:"url" format:"queue" help:"URL of the queue." unset:"none" example:"https://sqs.eu-west-1.amazonaws.com/123456789012/purges"`
	Targets []string `yaml:"targets" max:"32" format:"target" help:"What events in the queue purge. The queue then has events instead of purge requests." example:"[\"url:https://example.com/{payload.s3.object.key}\"]"`
	Hard    bool     `yaml:"hard" help:"Purge hard what events select."`
}

// Warm renders the pages of sitemaps from a schedule.
type Warm struct {
	Sitemap []string      `yaml:"sitemap" other:"sitemaps,url,urls" max:"16" format:"url" help:"URL of a sitemap of the site, or of an index of sitemaps, or a list of URLs: their pages that are missing, stale or expired are rendered, by one server of all. It is read through the server itself, so that its host must be one of hosts, and its name need not point here." unset:"none: pages are rendered when visitors ask for them" example:"https://example.com/sitemap.xml"`
	Every   time.Duration `yaml:"every" other:"interval,schedule,period" default:"24h" min:"5m" max:"30d" help:"Length of a period, in which the pages are rendered once. A restart does not begin another run; the first one begins within a sixtieth of it, at most 5 minutes."`
	Rate    float64       `yaml:"rate" default:"2" min:"0.01" max:"1000" help:"Pages that are rendered a second, at most. No render begins while visitors wait for renders, and the run ends if the circuit breaker of an origin is open, and is tried again later."`
	Pages   int           `yaml:"pages" other:"limit,max_pages" default:"50000" min:"1" max:"1000000" help:"Pages of the sitemaps that a run looks at, at most."`
}

// Notices tell people of problems.
type Notices struct {
	To      map[string]NoticeDestination `yaml:"to" max:"8" format:"name" help:"Destinations, by name."`
	After   time.Duration                `yaml:"after" other:"delay,for" default:"2m" min:"0s" max:"24h" help:"How long a problem lasts before it is told, and how long it is gone before its end is told."`
	Repeat  time.Duration                `yaml:"repeat" other:"remind,every" default:"4h" min:"1m" max:"30d" help:"After which time a problem that lasts is told again."`
	Console string                       `yaml:"console" other:"url,link" format:"url" help:"URL at which people reach the console; messages then link to its views." unset:"no links" example:"https://isr-admin.example.com"`
}

// A NoticeDestination takes messages about problems.
type NoticeDestination struct {
	Format string   `yaml:"format" other:"type,kind" default:"slack" enum:"slack,webhook" help:"slack: a text, for incoming webhooks of Slack, Mattermost and Rocket.Chat. webhook: JSON with all fields (docs/notices.md)."`
	URL    Secret   `yaml:"url" other:"to,address,webhook" required:"yes" help:"Address that messages are posted to." example:"{file: /run/secrets/slack-url}"`
	Secret Secret   `yaml:"secret" other:"key,token" help:"Key of the signature of messages with format: webhook, as Standard Webhooks describes: a text, or whsec_ and base64." unset:"messages are not signed" example:"{file: /run/secrets/notices}"`
	Only   []string `yaml:"only" other:"kinds" max:"8" enum:"failing_pages,quarantine,purges,certificates,stores,queue,origins,public_scheme" help:"Kinds of problems that it is told of." unset:"all" example:"[failing_pages, certificates]"`
}

// Regenerate is where stale pages are regenerated.
type Regenerate struct {
	Queue string `yaml:"queue" format:"queue" help:"URL of an SQS queue to which servers send stale pages, and from which isr worker regenerates them; needs store.table. If the queue fails, servers regenerate pages themselves." unset:"servers regenerate stale pages themselves" example:"https://sqs.eu-west-1.amazonaws.com/123456789012/regenerations.fifo"`
}

// Draft is what the links of isr draft are signed with.
type Draft struct {
	Secrets []Secret `yaml:"secrets" max:"2" help:"Secret that isr draft signs links with, at least 16 bytes; two while it is replaced: the first signs, both are accepted." unset:"no draft mode" example:"[{file: /run/secrets/isr-draft}]"`
}

// DynamoDB serves the embedded store to other programs.
type DynamoDB struct {
	Address   string `yaml:"address" format:"address" help:"Address to listen on; one that other machines reach needs the keys." unset:"none" example:"127.0.0.1:8000"`
	AccessKey Secret `yaml:"access_key" help:"Accept only this access key, and verify signatures." example:"${ISR_KEY_ID}"`
	SecretKey Secret `yaml:"secret_key" help:"Secret of the access key." example:"{file: /run/secrets/isr-dynamodb}"`
}

// AccessLog is the access log.
type AccessLog struct {
	Path          string   `yaml:"path" format:"path" help:"File, which is appended to, or - for standard output. SIGHUP opens it again." unset:"no access log" example:"/var/log/isr/access.log"`
	Format        string   `yaml:"format" default:"json" enum:"json,text" help:"Format of its lines: json, with the names of OpenTelemetry, or text, the Combined Log Format and the fields of the cache."`
	ClientAddress string   `yaml:"client_address" default:"full" enum:"full,masked,none" help:"Addresses of clients in its lines: full, masked (the last octet of IPv4 and the last 80 bits of IPv6 are zero), or none."`
	Fields        []string `yaml:"fields" max:"64" help:"What a line has, in this order: fields of docs/logs.md by either of their names, and headers as request.NAME and response.NAME. In text, lines are name=value then." unset:"all fields of docs/logs.md, and no other headers" example:"[time, status, method, host, path, duration, cache, request.referer, response.content-type]"`
	Syslog        string   `yaml:"syslog" format:"syslog" help:"Syslog server that gets the lines instead of a file, as RFC 5424 (local7.info): udp://HOST:PORT, tcp://HOST:PORT or unix:///PATH. Lines are dropped and counted while it cannot be reached." unset:"none" example:"udp://192.0.2.1:514"`
	SampleHits    int      `yaml:"sample_hits" default:"1" min:"1" max:"1000000" help:"Log one in so many hits, at random; all other requests are always logged."`
}

// Log is the log of the server.
type Log struct {
	Format string `yaml:"format" default:"text" enum:"text,json" help:"Format of the log."`
	Level  string `yaml:"level" default:"info" enum:"debug,info,warn,error" help:"Minimum level of the log."`
}
