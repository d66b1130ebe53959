package caddy

import (
	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/dustin/go-humanize"
)

// Caddy knows modules and directives by what their packages register when a program starts.
func init() { //nolint:gochecknoinits // the contract of Caddy's modules
	caddy.RegisterModule(new(Handler))
	caddy.RegisterModule(Admin{})
	httpcaddyfile.RegisterHandlerDirective("isr", parseDirective)
	// Pages are compressed by isr itself, and authentication is in front of it.
	httpcaddyfile.RegisterDirectiveOrder("isr", httpcaddyfile.Before, "encode")
}

var _ caddyfile.Unmarshaler = (*Handler)(nil)

func parseDirective(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
	handler := new(Handler)
	return handler, handler.UnmarshalCaddyfile(h.Dispenser)
}

// UnmarshalCaddyfile implements [caddyfile.Unmarshaler]. The subdirectives are the names of the fields in
// JSON: options of lists may be repeated.
func (h *Handler) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	texts := map[string]*string{
		"data": &h.Data, "table": &h.Table, "bucket": &h.Bucket, "region": &h.Region, "dynamodb_endpoint": &h.DynamoDBEndpoint, "s3_endpoint": &h.S3Endpoint, "name": &h.Name,
	}
	times := map[string]*caddy.Duration{
		"revalidate": &h.Revalidate, "stale": &h.Stale, "stale_if_error": &h.StaleIfError, "render_timeout": &h.RenderTimeout, "lease": &h.Lease, "retention": &h.Retention,
	}
	sizes := map[string]*int64{"memory": &h.Memory, "disk": &h.Disk, "max_body": &h.MaxBody}
	lists := map[string]*[]string{
		"query": &h.Query, "ignore_query": &h.IgnoreQuery, "ignore_cookies": &h.IgnoreCookies, "vary": &h.Vary, "codings": &h.Codings,
	}
	d.Next() // the directive
	if d.NextArg() {
		return d.ArgErr()
	}
	for d.NextBlock(0) {
		name := d.Val()
		if list := lists[name]; list != nil {
			args := d.RemainingArgs()
			if len(args) == 0 {
				return d.ArgErr()
			}
			*list = append(*list, args...)
			continue
		}
		var value string
		if !d.AllArgs(&value) {
			return d.ArgErr()
		}
		switch {
		case texts[name] != nil:
			*texts[name] = value
		case times[name] != nil:
			t, err := caddy.ParseDuration(value)
			if err != nil {
				return d.Errf("%s: %v; expected a time such as 90s, 10m or 7d", name, err)
			}
			*times[name] = caddy.Duration(t)
		case sizes[name] != nil:
			n, err := humanize.ParseBytes(value)
			if err != nil || n > 1<<50 {
				return d.Errf("%s: %q is not a size; expected one such as 512KiB or 1GiB", name, value)
			}
			*sizes[name] = int64(n) //nolint:gosec // bounded above
		default:
			return d.Errf("unknown subdirective %s of isr; expected one of the fields of docs/caddy.md", name)
		}
	}
	return nil
}
