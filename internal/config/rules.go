package config

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/gateway"
)

// Rules returns the route as the library takes it, without what belongs to its origin. Routes
// of a [File] that Parse has returned are valid; for others see [isr.Route.Validate].
func (r Route) Rules() (isr.Route, error) {
	rt := isr.Route{
		Off:           r.Cache == "off",
		Stale:         windowOf(r.Stale),
		StaleIfError:  windowOf(r.StaleIfError),
		KeepStale:     r.KeepStale,
		ObeyRequests:  r.RequestDirectives == "obey",
		EarlyRefresh:  r.EarlyRefresh,
		Jitter:        noneIfZero(r.Jitter),
		History:       r.History,
		StoreNegative: r.StoreNegative,
		OwnRequest:    r.OwnRequest,
		EarlyHints:    r.EarlyHints,
		Negative:      r.Negative.windows(),
		Query:         r.Query,
		IgnoreQuery:   r.IgnoreQuery,
		IgnoreCookies: r.IgnoreCookies,
		Forward:       r.Forward,
		VaryAuto:      r.Vary == "auto",
		MaxVariants:   r.MaxVariants,
		RemoveHeader:  r.RemoveHeaders,
		Downstream:    isr.DownstreamControl{CacheControl: r.CacheControl, CDN: r.CDNCacheControl, Surrogate: r.SurrogateControl},
		TenantHeader:  r.TenantHeader,
	}
	for _, text := range r.Statuses {
		status, err := statusOf(text)
		if err != nil {
			return isr.Route{}, err
		}
		rt.Statuses = append(rt.Statuses, status)
	}
	if r.OptIn == "strict" {
		rt.OptIn = isr.OptInStrict
	}
	rt.Reject = isr.Reject{
		SmallerThan: float64(r.Reject.SmallerThan), Without: r.Reject.Without, With: r.Reject.With,
		Status: r.Reject.Status, Truncated: r.Reject.Truncated, ContentType: r.Reject.ContentType, LostHeaders: r.Reject.LostHeaders,
	}
	if w := r.Revalidate; w.Min == w.Max {
		rt.Revalidate = w.Min
	} else {
		rt.Auto = isr.AutoWindow{Min: w.Min, Max: w.Max}
	}
	if err := rt.Policy.UnmarshalText([]byte(r.Policy)); err != nil {
		return isr.Route{}, err
	}
	switch r.UnsafeRequests {
	case "soft":
		rt.UnsafeRequests = isr.UnsafeSoft
	case "ignore":
		rt.UnsafeRequests = isr.UnsafeIgnore
	}
	for _, token := range r.Compression {
		if token == "off" {
			token = "identity"
		}
		rt.Codings = append(rt.Codings, token)
	}
	if r.RenderTimeout != nil {
		rt.RenderTimeout = *r.RenderTimeout
	}
	if r.Wait != nil {
		rt.Wait = *r.Wait
	}
	if r.MaxBody != nil {
		rt.MaxBody = int64(*r.MaxBody)
	}
	for name, value := range r.SetHeaders {
		if rt.SetHeader == nil {
			rt.SetHeader = make(http.Header)
		}
		rt.SetHeader.Set(name, value)
	}
	r.addKeys(&rt)
	return r.addTags(rt)
}

// addTags returns a route with the purge tags of its pages that are made of their paths.
func (r Route) addTags(rt isr.Route) (isr.Route, error) {
	if len(r.Tags) > 0 {
		var err error
		if rt.Tags, err = isr.PathTags(r.Match, r.Tags...); err != nil {
			return isr.Route{}, err
		}
	}
	if r.PathTags == "next" {
		return gateway.WithNextTags(rt), nil
	}
	return rt, nil
}

// addKeys sets what is part of the cache key.
func (r Route) addKeys(rt *isr.Route) {
	for _, key := range r.Headers {
		if len(key.Values) == 0 {
			rt.Vary = append(rt.Vary, key.Name)
		} else {
			rt.KeyClasses = append(rt.KeyClasses, isr.KeyClass{Header: key.Name, Values: key.Values})
		}
	}
	if len(r.Device) > 0 {
		rt.KeyClasses = append(rt.KeyClasses, isr.KeyClass{Header: gateway.DeviceHeader, Values: r.Device})
	}
	if len(r.Country) > 0 {
		rt.KeyClasses = append(rt.KeyClasses, isr.KeyClass{Header: gateway.CountryHeader, Values: append([]string{"other"}, r.Country...)})
	}
	for _, key := range r.Cookies {
		rt.KeyClasses = append(rt.KeyClasses, isr.KeyClass{Cookie: key.Name, Values: key.Values})
	}
}

// validateRules reports what the library refuses, at the field of the file.
func (r Route) validateRules(d *decoder, at string) {
	rt, err := r.Rules()
	if err != nil {
		if !d.isBroken(at, "defaults") {
			d.failSetting(at, "tags", "%v", err)
		}
		return
	}
	for _, err := range unjoin(rt.Validate()) {
		var wrong *isr.ConfigError
		if !errors.As(err, &wrong) {
			d.failAt(at, "%v", err)
			continue
		}
		name, ok := fieldNames()[wrong.Field]
		switch {
		case !ok:
			name = "match"
		case wrong.Field == "KeyClasses" && r.namesCookie(wrong.Problem):
			name = "cookies"
		case wrong.Field == "KeyClasses" && len(r.Device) > 0 && strings.Contains(wrong.Problem, strconv.Quote(gateway.DeviceHeader)):
			name = "device"
		case wrong.Field == "KeyClasses" && len(r.Country) > 0 && strings.Contains(wrong.Problem, strconv.Quote(gateway.CountryHeader)):
			name = "country"
		}
		if d.isBroken(at+"."+name, "defaults."+name) {
			continue // perhaps a consequence
		}
		d.failSetting(at, name, "%s", strings.NewReplacer("Vary or KeyClasses", "headers", "KeyClasses", name, "Vary", "headers", "identity", "off").Replace(wrong.Problem))
	}
}

// namesCookie reports whether a text has the quoted name of a cookie in the key.
func (r Route) namesCookie(text string) bool {
	return slices.ContainsFunc(r.Cookies, func(k Key) bool { return strings.Contains(text, strconv.Quote(k.Name)) })
}

// unjoin returns the errors of errors.Join, also of nested ones.
func unjoin(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error })
	switch {
	case err == nil:
		return nil
	case !ok:
		return []error{err}
	}
	var all []error
	for _, err := range joined.Unwrap() {
		all = append(all, unjoin(err)...)
	}
	return all
}

// fieldNames maps fields of the library to fields of the file.
func fieldNames() map[string]string {
	return map[string]string{
		"Revalidate": "revalidate", "Auto": "revalidate", "Stale": "stale", "StaleIfError": "stale_if_error", "Policy": "policy", "OptIn": "opt_in", "UnsafeRequests": "unsafe_requests", "Statuses": "statuses", "EarlyRefresh": "early_refresh", "Jitter": "jitter",
		"History": "history", "Negative": "negative.404", "RenderTimeout": "render_timeout", "Wait": "wait", "MaxBody": "max_body",
		"Query": "query", "IgnoreQuery": "ignore_query", "Vary": "headers", "MaxVariants": "max_variants", "KeyClasses": "headers", "IgnoreCookies": "ignore_cookies",
		"Forward": "forward", "SetHeader": "set_headers", "RemoveHeader": "remove_headers", "Downstream": "cache_control",
		"TenantHeader": "tenant_header", "Codings": "compression", "Reject": "reject.smaller_than",
	}
}

// noneIfZero returns the library's value for none: its zero value means the default.
func noneIfZero[T ~int64 | ~float64](n T) T {
	if n == 0 {
		return -1
	}
	return n
}

// windowOf returns the library's value for a window, which is zero if it is not set, and
// negative for none.
func windowOf(d *time.Duration) time.Duration {
	if d == nil {
		return 0
	}
	return noneIfZero(*d)
}

// windows returns the windows by status; nil if there are none.
func (n Negative) windows() map[int]time.Duration {
	windows := make(map[int]time.Duration)
	if n.NotFound != nil {
		windows[http.StatusNotFound] = *n.NotFound
	}
	if n.Gone != nil {
		windows[http.StatusGone] = *n.Gone
	}
	if n.Redirect != nil {
		for _, status := range []int{
			http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
			http.StatusTemporaryRedirect, http.StatusPermanentRedirect,
		} {
			windows[status] = *n.Redirect
		}
	}
	return windows
}
