// Package nginx translates the caching part of an nginx configuration into a configuration of isr.
//
//	nginx.conf and what it includes ──► directives ──► locations that reach a site ──► routes of isr.yaml
//	                                                └► what has no counterpart     ──► notes
//
// isr takes its place between nginx and the site: nginx goes on to accept connections, to check who may see what, and
// to serve files. So everything but caching stays where it is, and only locations with proxy_pass, fastcgi_pass, uwsgi_pass
// or scgi_pass become routes. A route is never more permissive than its location: what nginx does not cache is
// cache: off, and responses that set cookies are not stored, whatever proxy_ignore_headers asks for.
//
// The directives and their inheritance are defined by the modules ngx_http_proxy_module, ngx_http_fastcgi_module,
// ngx_http_core_module and ngx_http_upstream_module of nginx's documentation.
package nginx

// The files:
//
//	parse.go      directives of a file, and of the files that it includes
//	value.go      times, sizes and regular expressions
//	translate.go  servers, locations and upstreams
//	caching.go    the caching of a location
//	text.go       the configuration file
