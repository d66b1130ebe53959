package gateway

import (
	"bytes"
	"net/http"
	"slices"
	"strings"

	"github.com/facetheory/isr"
)

const (
	// DeviceHeader has the class of the device of a visitor, on routes with a key class of this header and
	// [SiteRoute.Device]: one of the values of the class.
	DeviceHeader = "X-Device-Class"
	// CountryHeader has the country of a visitor, on routes with a key class of this header and [SiteRoute.Country]: one
	// of the values of the class, of which the first is that of all other countries.
	CountryHeader = "X-Country"
)

// The classes of devices.
const (
	deviceDesktop = "desktop"
	devicePhone   = "phone"
	deviceTablet  = "tablet"
	deviceBot     = "bot"
)

// maxUserAgent is how much of a User-Agent is read, in bytes.
const maxUserAgent = 512

// A derived sets the headers of a request that are derived from other parts of it. The key of the page, its render and
// requests that pass through see the same values, whatever the visitor sends in these headers. It is immutable.
type derived struct {
	device  *headerClass // nil: none
	country *headerClass // nil: none
	from    string       // the canonical name of the header of trusted peers that has the country; empty: none
}

// A headerClass is a key class of a header. Header fields share its values, which nothing changes.
type headerClass struct {
	values []string
	fields [][]string
}

// derivedOf returns what is derived for a route.
func derivedOf(rt SiteRoute, countryHeader string) derived {
	d := derived{from: http.CanonicalHeaderKey(countryHeader)}
	if rt.Device {
		d.device = classOf(rt.Route, DeviceHeader)
	}
	if rt.Country {
		d.country = classOf(rt.Route, CountryHeader)
	}
	return d
}

// classOf returns the class that a route has of a header; nil if it has none.
func classOf(rt isr.Route, header string) *headerClass {
	i := slices.IndexFunc(rt.KeyClasses, func(c isr.KeyClass) bool { return strings.EqualFold(c.Header, header) })
	if i < 0 {
		return nil
	}
	c := &headerClass{values: rt.KeyClasses[i].Values}
	for _, v := range c.values {
		c.fields = append(c.fields, []string{v})
	}
	return c
}

// has reports whether a class has a value.
func (c *headerClass) has(value string) bool { return slices.Contains(c.values, value) }

// field returns the lines of the field that has a value, or the default.
func (c *headerClass) field(value string) []string {
	return c.fields[max(slices.Index(c.values, value), 0)]
}

// set sets the derived headers of a request. It does not allocate.
func (d *derived) set(r *http.Request) {
	if d.device != nil {
		r.Header[DeviceHeader] = d.device.field(deviceOf(r.Header["User-Agent"], d.device.has(deviceBot)))
	}
	if d.country != nil {
		country := ""
		if values := r.Header[d.from]; len(values) == 1 && FromTrustedPeer(r) {
			country = values[0]
		}
		r.Header[CountryHeader] = d.country.field(country)
	}
}

// explain makes the parts of an explanation name what was derived from them.
func (d *derived) explain(parts []isr.Part, r *http.Request) {
	for i := range parts {
		p := &parts[i]
		switch {
		case p.Kind != "header":
		case d.device != nil && p.Name == "User-Agent":
			p.Use, p.Why = isr.PartIgnored, "device of the route reduces it to "+DeviceHeader+": "+r.Header[DeviceHeader][0]
		case d.device != nil && p.Name == DeviceHeader:
			p.Why = "device of the route derives it from User-Agent, as one of " + strings.Join(d.device.values, ", ")
		case d.country != nil && p.Name == d.from:
			p.Use, p.Why = isr.PartIgnored, "country_header is read from trusted proxies only, and the sender is none"
			if FromTrustedPeer(r) {
				p.Why = "country of the route reduces it to " + CountryHeader + ": " + r.Header[CountryHeader][0]
			}
		case d.country != nil && p.Name == CountryHeader:
			p.Why = "country of the route derives it from country_header of trusted proxies, as one of " + strings.Join(d.country.values, ", ")
		}
	}
}

// deviceOf returns the class of a User-Agent. A bot has the class of the device that it pretends to be, unless bots have a
// class: a search engine sees what the visitors of its results will see. No or several fields are a desktop's.
func deviceOf(lines []string, bots bool) string {
	if len(lines) != 1 {
		return deviceDesktop
	}
	var lower [maxUserAgent]byte
	agent := lower[:copy(lower[:], lines[0])]
	for i, c := range agent {
		if c >= 'A' && c <= 'Z' {
			agent[i] = c + 'a' - 'A'
		}
	}
	has := func(part string) bool { return bytes.Contains(agent, []byte(part)) }
	switch {
	case bots && isBot(agent):
		return deviceBot
	case has("ipad"), has("tablet") && !has("tablet pc"), has("kindle"), has("silk/"), has("android") && !has("mobile"):
		return deviceTablet
	case has("mobile"), has("iphone"), has("ipod"), has("windows phone"), has("blackberry"), has("opera mini"):
		return devicePhone
	}
	return deviceDesktop
}

// isBot reports whether a User-Agent in lower case is of a program that visits pages by itself. Cubot makes phones.
func isBot(agent []byte) bool {
	for _, part := range []string{"crawler", "spider", "slurp", "facebookexternalhit", "bingpreview", "mediapartners-google", "google-inspectiontool", "+http"} {
		if bytes.Contains(agent, []byte(part)) {
			return true
		}
	}
	for rest := agent; ; {
		i := bytes.Index(rest, []byte("bot"))
		if i < 0 {
			return false
		}
		after := rest[i+len("bot"):]
		if (len(after) == 0 || after[0] < 'a' || after[0] > 'z') && !bytes.HasSuffix(rest[:i], []byte("cu")) {
			return true
		}
		rest = after
	}
}
