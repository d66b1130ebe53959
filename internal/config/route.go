package config

import "time"

// A Route is a rule for requests that match a pattern. After [Parse] it has its effective
// settings.
type Route struct {
	Match    string `yaml:"match" other:"path,pattern,url,location,rule" default:"/" format:"match" help:"Requests of the route: [METHOD ][HOST]/PATH, a pattern of Go's net/http.ServeMux. A path that ends in / matches all below it, {name} one segment, {name...} the rest, {$} the end; GET matches HEAD too." example:"GET /blog/{slug}"`
	Settings `yaml:",inline"`
}

// Settings are the settings of a route, each of which may come from the route, from
// defaults, from the preset, or be built in.
type Settings struct {
	Origin string `yaml:"origin" format:"originName" help:"Name of the origin. Required if there are several." unset:"the only origin" example:"site"`
	Cache  string `yaml:"cache" default:"on" enum:"on,off" help:"off: all requests go to the origin, and responses are not stored."`

	Revalidate   Window         `yaml:"revalidate" other:"ttl,max_age,fresh,expires" default:"0s" min:"0s" max:"3650d" help:"Freshness window of pages for which the origin sends none; 0s: they are not cached. auto MIN to MAX follows how often the content of each page changes." example:"auto 30s to 1h"`
	OptIn        string         `yaml:"opt_in" default:"explicit" enum:"explicit,strict" help:"Responses that state how long they are fresh: explicit (s-maxage, max-age, Expires, CDN-Cache-Control) or strict (max-age only beside public, and no Expires)."`
	Stale        *time.Duration `yaml:"stale" other:"swr,grace,stale_while_revalidate" min:"0s" max:"3650d" help:"Stale window: how long after its freshness window a page may be served while it is regenerated. It bounds the stale-while-revalidate of responses, and replaces a missing one; 0s: never. must-revalidate and proxy-revalidate forbid it." unset:"stale-while-revalidate of the response, unless it has s-maxage; see keep_stale" example:"1d"`
	StaleIfError *time.Duration `yaml:"stale_if_error" other:"sie,keep" min:"0s" max:"3650d" help:"How long after its freshness window a page may be served while the origin fails. It bounds the stale-if-error of responses, and replaces a missing one; 0s: no longer than stale." unset:"stale-if-error of the response, unless it has s-maxage and stale is unset; see keep_stale" example:"7d"`
	KeepStale    bool           `yaml:"keep_stale" default:"true" help:"Keep pages at hand whose freshness window is revalidate, because their response states none: without stale, such a page is served for another freshness window while it is regenerated, and without stale_if_error, for a day while the origin fails. Not if the response forbids it."`
	Policy       string         `yaml:"policy" default:"serve-stale" enum:"serve-stale,wait" removed:"fail: use serve-stale, and a shorter wait if visitors must not wait for another server" help:"Response while a page is not fresh: serve-stale, or wait (for the new page)."`
	EarlyRefresh float64        `yaml:"early_refresh" default:"0" min:"0" max:"10" help:"Refresh popular pages shortly before they expire (XFetch beta; 1 is typical, 0 disables)." example:"1"`
	Jitter       float64        `yaml:"jitter" default:"0.05" min:"0" max:"0.5" help:"Shorten each freshness window by a random part, at most this one, so that pages do not expire together."`
	History      int            `yaml:"history" default:"3" min:"0" max:"100" help:"Generations of a page that are kept for rollbacks, including the current one; 0 keeps none." example:"10"`

	Negative      Negative `yaml:"negative" help:"Freshness windows of missing pages and redirects whose response has no caching headers; 0s: they are never stored, even if the response allows it."`
	Statuses      []string `yaml:"statuses" max:"32" format:"status" help:"Statuses that are stored if the response states how long it is fresh, in addition to 200, 203, 204, 300, 301, 302, 303, 307, 308, 404 and 410." example:"[405, 501]"`
	StoreNegative bool     `yaml:"store_negative" help:"Store 404 and 410 responses of pages that are not stored yet, for all servers, instead of keeping them in the negative cache."`

	OwnRequest bool `yaml:"own_request" help:"Send each visitor's own request for a response that must not be shared, also the request of the visitor who caused its render: the origin then sees two requests. For sites that answer by a visitor's address or headers and do not name them in Vary."`

	RequestDirectives string `yaml:"request_directives" default:"ignore" enum:"ignore,obey" help:"Directives of Cache-Control in requests: obey them, so that visitors can make the origin work, or ignore them. only-if-cached is always obeyed."`

	UnsafeRequests string `yaml:"unsafe_requests" other:"invalidate,purge_on_post,post" default:"hard" enum:"hard,soft,ignore" help:"What a successful POST, PUT, DELETE or other unsafe request does to the stored page that it changes: hard (it is never served again, as RFC 9111 demands), soft (it is stale, and served within its stale window), or ignore (nothing)."`

	RenderTimeout *time.Duration `yaml:"render_timeout" other:"timeout" min:"1ms" max:"24h" help:"Time limit for the origin to render a page." unset:"30s" example:"10s"`
	Wait          *time.Duration `yaml:"wait" min:"1ms" max:"24h" help:"How long a visitor waits for a page that another server renders or that waits for its turn at the origin, and with policy: wait, for the new page; then the stale page is served, or 503." unset:"render_timeout and twice lease" example:"20s"`
	MaxBody       *Size          `yaml:"max_body" min:"1B" max:"1GiB" help:"Largest page that is stored; larger responses pass through. At most max_body of the top level." unset:"max_body of the top level" example:"2MiB"`
	Compression   []string       `yaml:"compression" other:"compress,gzip,encoding,codings" max:"3" enum:"br,zstd,gzip,off" help:"Content codings of pages of a text format, 1 KiB to 4 MiB, for clients that accept them; of those that a client prefers equally, it gets the first of br, zstd and gzip. off: none." unset:"[br, zstd, gzip]" example:"[br, gzip]"`

	Query         []string `yaml:"query" other:"params,query_params" max:"256" preset:"add" format:"query" help:"Query parameters that are part of the cache key. A request with others bypasses the cache, unless they are ignored." example:"[page, sort]"`
	Headers       Keys     `yaml:"headers" max:"32" preset:"add" format:"keyHeader" help:"Request headers that are part of the cache key: a list, or a map of each name to its classes of values, of which the first is the default. An empty first value is the absence of the header, and * as the last one excludes requests with any other value from the cache." example:"{Accept-Language: [en, de]}"`
	Vary          string   `yaml:"vary" default:"declared" enum:"declared,auto" help:"Pages whose Vary names a header that is not in headers: declared does not store them; auto stores a variant for each value of the headers that Vary names, except Cookie, User-Agent and others that are never shared (docs/caching.md)."`
	MaxVariants   int      `yaml:"max_variants" default:"16" min:"1" max:"256" help:"With vary: auto, how many variants of a page may be served at the same time; requests for others pass through."`
	Cookies       Keys     `yaml:"cookies" max:"8" preset:"add" format:"cookie" help:"Cookies that are part of the cache key: a map of each name to its classes of values, of which the first is the default." example:"{ab: [a, b]}"`
	Device        []string `yaml:"device" other:"devices,device_class" max:"4" enum:"desktop,phone,tablet,bot" help:"Classes of devices that are part of the cache key, of which the first is that of all other devices. They are derived from User-Agent, and sent to the origin in X-Device-Class (docs/caching.md)." unset:"none" example:"[desktop, phone]"`
	Country       []string `yaml:"country" other:"countries,geo" max:"31" format:"country" help:"Countries that are part of the cache key, by their codes of two letters; all others are the class other. They are taken from country_header, and sent to the origin in X-Country." unset:"none" example:"[DE, AT, CH]"`
	IgnoreQuery   []string `yaml:"ignore_query" max:"256" preset:"add" format:"query" help:"Query parameters that do not affect pages: they are not sent to the origin of a cacheable page. A name may end in *, and * means all that are not in query." example:"[ref, \"promo_*\"]"`
	IgnoreCookies []string `yaml:"ignore_cookies" max:"256" preset:"add" format:"cookie" help:"Cookies that do not affect pages, beside well-known ones of load balancers, bot management, analytics, advertising, consent banners and chats (spec/requests.json). A name may end in *, and * means all. With a ! before its name a cookie counts, although it is well-known or covered by another name." example:"[\"_session_*\"]"`
	Forward       []string `yaml:"forward" max:"16" preset:"add" format:"keyHeader" help:"Request headers that renders carry although they are not in the key. Everyone gets the page that one visitor's value made: name only headers that the site logs or passes on." example:"[traceparent]"`

	SetHeaders       map[string]string `yaml:"set_headers" other:"response_headers,add_headers" max:"64" format:"header" help:"Response headers to set." example:"{X-Frame-Options: DENY}"`
	RemoveHeaders    []string          `yaml:"remove_headers" max:"64" preset:"add" format:"header" help:"Response headers to remove." example:"[X-Powered-By]"`
	EarlyHints       bool              `yaml:"early_hints" help:"Send the preload and preconnect links of a page's Link headers ahead of it, in a response 103 (Early Hints), to browsers that navigate to it."`
	CacheControl     string            `yaml:"cache_control" format:"cacheControl" help:"Cache-Control of fresh pages for the caches behind this one, such as browsers." unset:"the origin's" example:"max-age=60"`
	CDNCacheControl  string            `yaml:"cdn_cache_control" format:"cacheControl" help:"CDN-Cache-Control of fresh pages, for caches that purges reach; needs cache_control. max-age=remaining is the remaining freshness, in each of these fields." unset:"none" example:"max-age=remaining"`
	SurrogateControl string            `yaml:"surrogate_control" format:"cacheControl" help:"Surrogate-Control of fresh pages, for CDNs that do not know CDN-Cache-Control; needs cache_control." unset:"none" example:"max-age=remaining"`

	Tags         []string `yaml:"tags" max:"32" preset:"add" format:"tag" help:"Purge tags of the pages, in addition to the tags of the response; {name} is a wildcard of match." example:"[\"post-{slug}\"]"`
	PathTags     string   `yaml:"path_tags" default:"none" enum:"none,next" help:"Purge tags of the pages that are made of their paths, in addition to tags: next has those by which Next.js revalidates a path and its layouts (_N_T_/blog/rye, _N_T_/blog/layout)."`
	TenantHeader string   `yaml:"tenant_header" format:"header" help:"Request header that names the tenant; requests without it are refused." unset:"no tenants" example:"X-Tenant"`

	Protection `yaml:",inline"`

	Reject Reject `yaml:"reject" help:"Which generations are suspicious: they are quarantined, and the current one stays (docs/reject.md)."`
}

// Negative are the freshness windows of responses without a page.
type Negative struct {
	NotFound *time.Duration `yaml:"404" min:"0s" max:"3650d" help:"Window of 404 responses." unset:"revalidate, at most 10s" example:"1m"`
	Gone     *time.Duration `yaml:"410" min:"0s" max:"3650d" help:"Window of 410 responses." unset:"revalidate, at most 10s" example:"1h"`
	Redirect *time.Duration `yaml:"redirect" min:"0s" max:"3650d" help:"Window of 301, 302, 303, 307 and 308 responses." unset:"revalidate for 301 and 308; others are not stored" example:"10m"`
}

// Reject declares which generations are suspicious.
type Reject struct {
	SmallerThan Percent  `yaml:"smaller_than" default:"0%" min:"0%" max:"100%" help:"Smaller than this part of the current generation; 0% disables it." example:"50%"`
	Without     []string `yaml:"without" max:"32" format:"bodyText" help:"An HTML page with a status of 200 to 299 that lacks one of these texts." example:"\"</html>\""`
	With        []string `yaml:"with" max:"32" format:"bodyText" help:"An HTML page that has one of these texts." example:"[\"Fatal error\"]"`
	Status      bool     `yaml:"status" help:"A status of another class than the current generation's, such as 404 after 200."`
	Truncated   bool     `yaml:"truncated" default:"true" help:"An HTML page without </html>, if the current generation has it."`
	ContentType bool     `yaml:"content_type" help:"A content type other than the current generation's."`
	LostHeaders []string `yaml:"lost_headers" max:"32" format:"header" help:"A response without one of these headers, which the current generation has." example:"[Content-Security-Policy]"`
}

// Keys are parts of requests that are part of the cache key.
type Keys []Key

// A Key is a query parameter, header or cookie that is part of the cache key.
type Key struct {
	Name string
	// Values are the values that make a difference. Empty: each value does.
	Values []string
}
