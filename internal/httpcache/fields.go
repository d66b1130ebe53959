// Code generated from spec/responses.json by go test ./internal/httpcache -run TestFieldsGenerated -update; DO NOT EDIT.

package httpcache

import "strings"

// ofOneAnswer reports whether spec/responses.json lists a field, named in canonical form.
func ofOneAnswer(name string) bool {
	switch name {
	case "Age",
		"Alt-Svc",
		"Authentication-Info",
		"Cache-Status",
		"Cf-Cache-Status",
		"Cf-Ray",
		"Clear-Site-Data",
		"Connection",
		"Content-Encoding",
		"Content-Length",
		"Content-Range",
		"Etag",
		"Fly-Request-Id",
		"Http2-Settings",
		"Keep-Alive",
		"Proxy-Authenticate",
		"Proxy-Authentication-Info",
		"Proxy-Connection",
		"Ratelimit",
		"Request-Id",
		"Sec-Session-Challenge",
		"Sec-Session-Registration",
		"Server-Timing",
		"Set-Login",
		"Surrogate-Control",
		"Te",
		"Traceparent",
		"Traceresponse",
		"Tracestate",
		"Trailer",
		"Transfer-Encoding",
		"Uber-Trace-Id",
		"Upgrade",
		"Warning",
		"X-Amz-Cf-Id",
		"X-Amz-Id-2",
		"X-Amz-Request-Id",
		"X-Amzn-Requestid",
		"X-Amzn-Trace-Id",
		"X-Cache",
		"X-Cache-Hits",
		"X-Cache-Status",
		"X-Cloud-Trace-Context",
		"X-Correlation-Id",
		"X-Debug-Token",
		"X-Debug-Token-Link",
		"X-Drupal-Cache",
		"X-Drupal-Dynamic-Cache",
		"X-Envoy-Upstream-Service-Time",
		"X-Fastcgi-Cache",
		"X-Github-Request-Id",
		"X-Litespeed-Cache",
		"X-Nextjs-Cache",
		"X-Processing-Time",
		"X-Proxy-Cache",
		"X-Request-Id",
		"X-Response-Time",
		"X-Runtime",
		"X-Served-By",
		"X-Timer",
		"X-Trace-Id",
		"X-Varnish",
		"X-Vercel-Cache",
		"X-Vercel-Id":
		return true
	}
	for _, prefix := range []string{
		"Ratelimit-",
		"Sec-Websocket-",
		"X-B3-",
		"X-Datadog-",
		"X-Rate-Limit-",
		"X-Ratelimit-",
	} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}
