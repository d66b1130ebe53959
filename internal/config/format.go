package config

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/facetheory/isr/downstream"
	"github.com/facetheory/isr/gateway"
	"github.com/facetheory/isr/internal/canonical"
	"github.com/facetheory/isr/internal/page"
	"github.com/facetheory/isr/internal/routing"
	"github.com/facetheory/isr/internal/telemetry/accesslog"
	"github.com/facetheory/isr/store"
	"github.com/facetheory/isr/trigger"
	"github.com/facetheory/isr/trigger/queue"
)

// check checks a text against a format. Its errors are read after the text.
func check(format, text string) error {
	if !utf8.ValidString(text) {
		return errors.New("is not UTF-8 text")
	}
	switch format {
	case "":
		return nil
	case "address", "addressOrNone":
		return checkAddress(text, format == "addressOrNone")
	case "host":
		_, err := gateway.ParseHosts([]string{text})
		return reworded(err, "expected a host like example.com, *.example.com or example.com:8443, without scheme and path")
	case "originHost":
		if text == gateway.HostVisitor || text == gateway.HostURL {
			return nil
		}
		if _, ok := canonical.Host(text); !ok {
			return errors.New("expected visitor, url, or a host like app.internal or app.internal:8443")
		}
		return nil
	case "serverName":
		if _, ok := canonical.Host(text); !ok || strings.ContainsAny(text, ":[") {
			return errors.New("expected a name like app.internal, without port")
		}
		return nil
	case "network":
		_, err := gateway.ParseTrust([]string{text})
		return reworded(err, "expected a network like 10.0.0.0/8, an address, loopback or private")
	case "rateLimit":
		_, err := gateway.ParseRateLimit(text)
		return err
	case "origin":
		_, err := gateway.ParseOrigin(text)
		return reworded(err, "expected scheme and host of a site, like http://127.0.0.1:3000, without user name, path and query")
	case "url":
		return checkURL(text)
	case "queue":
		return reworded(queue.ValidURL(text), "expected the URL of an SQS queue, like https://sqs.eu-west-1.amazonaws.com/123456789012/purges")
	case "downstream":
		_, err := downstream.ParseSpec("x=" + text)
		return withoutPrefix(err, "x: ")
	case "match":
		return checkMatch(text)
	case "target":
		_, err := trigger.ParseTemplate(text)
		return err
	case "hookName":
		return trigger.ValidHookName(text)
	case "build":
		return reworded(store.ValidBuild(text), "expected 1 to 256 characters of printable ASCII")
	case "syslog":
		return reworded(accesslog.CheckSyslog(text), "expected the address of a syslog server, like udp://192.0.2.1:514, tcp://logs.example.com:514 or unix:///dev/log")
	case "status":
		_, err := statusOf(text)
		return err
	case "header", "keyHeader":
		return checkHeader(text, format == "keyHeader")
	case "cacheControl":
		return cmp.Or(check("headerValue", text), checkCacheControl(text))
	case "headerValue":
		if len(text) > 4096 || !fieldValue.MatchString(text) {
			return errors.New("is not the value of a header; expected at most 4096 bytes without line breaks and control characters")
		}
		return nil
	}
	if format == "hsts" {
		return CheckHSTS(text)
	}
	return checkPattern(format, text)
}

// maxHSTS bounds max-age of Strict-Transport-Security, in seconds: ten years. preloadHSTS is the least
// max-age that lists of browsers accept with preload, in seconds: a year.
const (
	maxHSTS     = 10 * 365 * 24 * 3600
	preloadHSTS = 365 * 24 * 3600
)

// CheckHSTS checks a value of Strict-Transport-Security (RFC 6797, section 6.1). Unknown directives are
// errors, because browsers ignore them.
func CheckHSTS(text string) error {
	age, seen := -1, make(map[string]bool)
	for directive := range strings.SplitSeq(text, ";") {
		name, value, hasValue := strings.Cut(strings.TrimSpace(directive), "=")
		name = strings.ToLower(name)
		switch {
		case seen[name]:
			return fmt.Errorf("has %s twice", name)
		case name == "max-age" && hasValue:
			n, err := strconv.ParseUint(value, 10, 31)
			if err != nil || n > maxHSTS {
				return fmt.Errorf("max-age must be a number of seconds from 0 to %d (got %.40q)", maxHSTS, value)
			}
			age = int(n)
		case (name == "includesubdomains" || name == "preload") && !hasValue:
		default:
			return errors.New("expected a value like max-age=31536000; includeSubDomains; preload")
		}
		seen[name] = true
	}
	switch {
	case age < 0:
		return errors.New("needs max-age, like max-age=31536000")
	case seen["preload"] && (age < preloadHSTS || !seen["includesubdomains"]):
		return fmt.Errorf("preload needs includeSubDomains and a max-age of at least %d: lists of browsers refuse it otherwise", preloadHSTS)
	}
	return nil
}

// checkCacheControl checks the directives of a Cache-Control that have seconds (RFC 9111, section 5.2; RFC 5861). Others
// are for the caches that know them.
func checkCacheControl(text string) error {
	seconds := []string{"max-age", "s-maxage", "stale-while-revalidate", "stale-if-error"}
	for directive := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(directive), "=")
		name, value = strings.ToLower(strings.TrimSpace(name)), strings.Trim(strings.TrimSpace(value), `"`)
		if !slices.Contains(seconds, name) {
			if guess := nearest(strings.ReplaceAll(name, "_", "-"), seconds); guess != "" && value != "" {
				return fmt.Errorf("the directive %.40s is not known; did you mean %s?", name, guess)
			}
			continue
		}
		number, _, _ := strings.Cut(value, "+") // of Surrogate-Control
		if _, err := strconv.ParseUint(number, 10, 63); err == nil || value == page.Remaining {
			continue
		}
		example := "60"
		if d, err := ParseDuration(value); err == nil {
			example = strconv.Itoa(int(d.Seconds()))
		}
		return fmt.Errorf("%s=%.40s: expected a number of seconds, like %s=%s", name, value, name, example)
	}
	return nil
}

// A pattern is a format that a regular expression describes.
type pattern struct {
	allowed *regexp.Regexp
	most    int // bytes
	problem string
}

// checkPattern checks the formats that are described by a regular expression.
func checkPattern(format, text string) error {
	p, ok := patterns[format]
	switch {
	case ok && len(text) > p.most:
		return fmt.Errorf("has %d bytes; at most %d are allowed", len(text), p.most)
	case ok && !p.allowed.MatchString(text):
		return errors.New("expected " + p.problem)
	}
	return nil
}

// patterns are the formats that are described by regular expressions.
var patterns = map[string]pattern{
	"name":       {namePattern, 40, "a name of lower-case letters, digits and -, beginning with a letter"},
	"originName": {namePattern, 40, "the name of an origin, of lower-case letters, digits and -"},
	"word":       {regexp.MustCompile(`^[!-~]+$`), 255, "a name without spaces"},
	"path":       {printable, 1024, "the path of a file or folder"},
	"pageFile":   {regexp.MustCompile(`^[^\x00-\x1f\x7f]*\.([Hh][Tt][Mm][Ll]?|[Tt][Xx][Tt]|[Jj][Ss][Oo][Nn]|[Xx][Mm][Ll])$`), 1024, "the path of a file whose name ends in .html, .txt, .json or .xml"},
	"moved":      {regexp.MustCompile(`^30[1278]$`), 3, "one of 301, 302, 307, 308"},
	"errors":     {regexp.MustCompile(`^([45][0-9][0-9]|4xx|5xx)$`), 3, "a status like 502, or all of a kind: 4xx, 5xx"},
	"email":      {regexp.MustCompile(`^[!-?A-~]+@[0-9A-Za-z.-]+$`), 254, "an e-mail address like ops@example.com"},
	"country":    {regexp.MustCompile(`^[A-Z]{2}$`), 2, "the code of a country, of two upper-case letters like DE"},
	"urlpath":    {regexp.MustCompile(`^/[!-"$->@-~]*$`), 1024, "a path like /healthz, without host and query"},
	"query":      {regexp.MustCompile(`^[^\x00-\x20\x7f&=#;,]+$`), 256, "the name of a query parameter"},
	"cookie":     {fieldName, 256, "the name of a cookie"},
	"tag":        {regexp.MustCompile(`^[^\x00-\x20\x7f,]+$`), 256, "a tag without spaces and commas"},
	"bodyText":   {regexp.MustCompile(`(?s)^.+$`), 1024, "a text"},
	"keyValue":   {regexp.MustCompile(`^[^\x00-\x1f\x7f]*$`), 1024, "a value without control characters"},
}

var (
	namePattern = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)
	printable   = regexp.MustCompile(`^[^\x00-\x1f\x7f]+$`)
	fieldName   = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$") // RFC 9110, section 5.6.2
	fieldValue  = regexp.MustCompile(`^[^\x00-\x08\x0a-\x1f\x7f]*$`)
)

// reworded replaces the text of an error, if there is one.
func reworded(err error, text string) error {
	if err == nil {
		return nil
	}
	return errors.New(text)
}

// withoutPrefix removes a prefix from the text of an error, if there is one.
func withoutPrefix(err error, prefix string) error {
	if err == nil {
		return nil
	}
	return errors.New(strings.TrimPrefix(err.Error(), prefix))
}

// maxMatch bounds patterns, in bytes.
const maxMatch = 2048

func checkMatch(text string) error {
	const expected = "expected [METHOD ][HOST]/PATH, like GET /blog/{slug}"
	if len(text) > maxMatch {
		return fmt.Errorf("has %d bytes; at most %d are allowed", len(text), maxMatch)
	}
	if star := strings.Index(text, "*"); star >= 0 {
		return fmt.Errorf("* is not a wildcard; %s/ is all below a path, {name} one segment, {name...} the rest, and %%2A the character", strings.TrimRight(text[:star], "/"))
	}
	if method, _, found := strings.Cut(text, " "); found && method != strings.ToUpper(method) {
		return fmt.Errorf("the method %.20s must be in upper case; %s", method, expected)
	}
	if _, err := routing.Parse(text); err != nil {
		return fmt.Errorf("is not a pattern: %w; %s", err, expected)
	}
	return nil
}

func checkAddress(text string, orNone bool) error {
	if orNone && text == "none" {
		return nil
	}
	host, port, err := net.SplitHostPort(text)
	if err != nil || strings.ContainsAny(host, " /") {
		return errors.New("expected an address host:port, like 127.0.0.1:8080 or :8080")
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("the port must be a number from 0 to 65535 (got %.20q)", port)
	} else if n == 0 && host == "" {
		return errors.New("the port is missing; expected an address host:port, like :8080")
	}
	return nil
}

func checkURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil {
		return errors.New("expected a URL like https://service.example, without user name")
	}
	return nil
}

// checkHeader checks the name of a header. key: it is part of a cache key, or forwarded.
func checkHeader(name string, key bool) error {
	switch {
	case !fieldName.MatchString(name):
		return errors.New("expected the name of a header, like Accept-Language")
	case key && (strings.EqualFold(name, "Cookie") || strings.EqualFold(name, "Authorization")):
		return errors.New("it identifies a visitor, whose pages are never shared; see cookies for cookies that pages depend on")
	}
	return nil
}

// isLoopback reports whether an address to listen on is reachable from this machine only.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// statusOf returns the status code that a text is. The library checks which can be stored.
func statusOf(text string) (int, error) {
	status, err := strconv.Atoi(text)
	if err != nil || len(text) != 3 || status < 200 {
		return 0, errors.New("expected a status code, like 405")
	}
	return status, nil
}
