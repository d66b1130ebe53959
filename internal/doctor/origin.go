package doctor

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/facetheory/isr/internal/canonical"
	"github.com/facetheory/isr/internal/doctor/leak"
	"github.com/facetheory/isr/internal/httpcache"
)

// An Origin is a site behind the server, with the settings of one of its routes.
type Origin struct {
	Name        string
	URLs        []string // none for the demonstration site
	Health      string   // path of the health checks; empty if there are none
	Host        string   // of the requests; empty: the host of the URL
	Path        string   // of a page
	Scheme      string   // that renders state, "http" or "https"; empty means http
	Revalidate  float64  // seconds: the freshness window if the origin sends none
	Strict      bool     // opt_in: strict
	MaxHeader   int64    // bytes of the largest header that is stored; zero means the default
	Off         bool     // cache: off
	Headers     []string // in the cache key
	Vary        bool     // vary: auto
	Connections int64    // that requests to the origin may need
}

const (
	// maxPage bounds what is read of a page, in bytes; maxHeader its header.
	maxPage   = 64 << 10
	maxHeader = 1 << 20
	// certificateSoon is how long before the end of a certificate a warning is given: most
	// renewals are due a month before.
	certificateSoon = 14 * 24 * time.Hour
)

// OriginCheck examines an origin: each of its addresses, and the caching header of a page.
func OriginCheck(o Origin) Check {
	return Check{Name: "origin", Run: func(ctx context.Context) []Finding {
		if len(o.URLs) == 0 {
			return []Finding{{Severity: OK, What: o.Name + ": the demonstration site"}}
		}
		visits := make([]visit, len(o.URLs))
		var visiting sync.WaitGroup
		for i, address := range o.URLs {
			visiting.Go(func() { visits[i] = o.visit(ctx, address) })
		}
		visiting.Wait()
		return o.judge(visits)
	}}
}

// A visit is what an address of an origin answered.
type visit struct {
	address string
	step    string // that failed: "DNS", "TCP", "TLS", "HTTP"; empty if none
	err     error
	status  int
	header  http.Header
	took    time.Duration
	expires time.Time // of the certificate; zero if there is no TLS
	health  string    // the problem of the health path; empty if there is none
}

func (o Origin) visit(ctx context.Context, address string) visit {
	v := visit{address: address}
	u, err := url.Parse(address)
	if err != nil {
		v.step, v.err = "URL", errors.New("it cannot be parsed")
		return v
	}
	transport := &http.Transport{DisableCompression: true, DisableKeepAlives: true, MaxResponseHeaderBytes: maxHeader, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	began := time.Now()
	v.step = "DNS"
	res, err := o.get(ctx, transport, u, o.Path, &v)
	if v.took = time.Since(began); err != nil {
		v.err = err
		return v
	}
	v.step, v.status, v.header = "", res.StatusCode, res.Header
	if res.TLS != nil && len(res.TLS.PeerCertificates) > 0 {
		v.expires = res.TLS.PeerCertificates[0].NotAfter
	}
	if o.Health != "" {
		var ignored visit
		switch res, err := o.get(ctx, transport, u, o.Health, &ignored); {
		case err != nil:
			v.health = err.Error()
		case res.StatusCode < 200 || res.StatusCode > 399:
			v.health = res.Status
		}
	}
	return v
}

// get requests a path, and sets the step of v as it advances.
func (o Origin) get(ctx context.Context, transport *http.Transport, u *url.URL, path string, v *visit) (*http.Response, error) {
	var mu sync.Mutex // traces run concurrently: a host may have several addresses
	at := func(step string) {
		mu.Lock()
		defer mu.Unlock()
		v.step = step
	}
	trace := &httptrace.ClientTrace{
		ConnectStart:      func(string, string) { at("TCP") },
		TLSHandshakeStart: func() { at("TLS") },
		GotConn:           func(httptrace.GotConnInfo) { at("HTTP") },
	}
	r, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, trace), http.MethodGet, u.Scheme+"://"+u.Host+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	r.Host = o.Host
	// As renders have it: a site that insists on https redirects requests without it.
	r.Header.Set("X-Forwarded-Proto", cmp.Or(o.Scheme, "http"))
	r.Header.Set("User-Agent", "isr-doctor")
	r.Header.Set("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
	res, err := transport.RoundTrip(r)
	mu.Lock() // no trace writes v.step after this
	defer mu.Unlock()
	if err != nil {
		if ctx.Err() != nil {
			return nil, errors.New("no answer in time")
		}
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	_, _ = io.CopyN(io.Discard, res.Body, maxPage) // an answer whose body fails is judged by its header
	return res, nil
}

func (o Origin) judge(visits []visit) (found []Finding) {
	var up []visit
	for _, v := range visits {
		if v.err == nil {
			up = append(up, v)
		}
	}
	for _, v := range visits {
		if v.err != nil {
			found = append(found, v.unreachable(o.Name, len(up) > 0))
			continue
		}
		found = append(found, v.judgeServer(o)...)
	}
	if len(up) == 0 {
		return found
	}
	page := o.judgePage(up[0])
	if len(found)+len(page) == 0 {
		return []Finding{{Severity: OK, What: fmt.Sprintf("%s: %s answers in %s, and its pages can be cached", o.Name, listed(addressesOf(up), 3), up[0].took.Round(time.Millisecond))}}
	}
	return append(found, page...)
}

func addressesOf(visits []visit) (all []string) {
	for _, v := range visits {
		all = append(all, v.address)
	}
	return all
}

// unreachable is the finding of an address that gives no response.
func (v visit) unreachable(origin string, others bool) Finding {
	f := Finding{Severity: Fault, What: fmt.Sprintf("%s: %s cannot be reached (%s)", origin, v.address, v.step), Evidence: []string{v.err.Error()}}
	if others {
		f.Severity = Warning
		f.What += "; other addresses answer"
	}
	var refused *net.OpError
	var late net.Error
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case v.step == "DNS":
		f.Do = "correct the host in origins." + origin + ".url (or --origin), or its DNS record"
	case errors.As(v.err, &unknown), errors.As(v.err, &name), errors.As(v.err, &invalid):
		f.Do = "give the origin a valid certificate for this host; see it with: openssl s_client -connect " + hostPort(v.address) + " </dev/null"
	case v.step == "TLS":
		f.Do = "use http:// if the site does not speak TLS at this port"
	case errors.As(v.err, &refused) && strings.Contains(v.err.Error(), "refused"):
		f.Do = "start the site, or correct its port in origins." + origin + ".url (or --origin)"
	case v.step == "TCP":
		f.Do = "let the firewall or security group of the origin accept connections of this machine"
	case errors.As(v.err, &late) && late.Timeout():
		f.Do = "look into the log of the site: it accepts connections, but does not answer"
	case strings.Contains(v.err.Error(), "malformed"):
		f.Do = "correct the port in origins." + origin + ".url (or --origin): what answers there does not speak HTTP; use https:// if it speaks TLS"
	default:
		f.Do = "look into the log of the site: it accepts connections, but closes them without a complete answer"
	}
	return f
}

func hostPort(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "HOST:443"
	}
	if u.Port() == "" {
		return u.Hostname() + ":443"
	}
	return u.Host
}

// judgeServer judges certificate, health path and status of an address.
func (v visit) judgeServer(o Origin) (found []Finding) {
	if left := time.Until(v.expires); !v.expires.IsZero() && left < certificateSoon {
		found = append(found, Finding{
			Severity: Warning, What: fmt.Sprintf("%s: the certificate of %s ends in %d days", o.Name, v.address, int(left.Hours()/24)),
			Evidence: []string{"not after " + v.expires.UTC().Format(time.RFC3339)}, Do: "renew it at the origin; after that day no page can be rendered",
		})
	}
	if v.health != "" {
		found = append(found, Finding{
			Severity: Fault, What: fmt.Sprintf("%s: the health check of %s fails, so that isr sends it no requests", o.Name, v.address),
			Evidence: []string{"GET " + o.Health + ": " + v.health}, Do: "correct origins." + o.Name + ".health.path, or make it answer with a status from 200 to 399",
		})
	}
	if v.status >= http.StatusInternalServerError {
		found = append(found, Finding{
			Severity: Fault, What: fmt.Sprintf("%s: %s fails to render %s", o.Name, v.address, o.Path),
			Evidence: []string{v.seen(o, "Server", "Via")}, Do: "look into the log of the site",
		})
	}
	return found
}

// seen describes the response, with the values of some header fields.
func (v visit) seen(o Origin, names ...string) string {
	text := fmt.Sprintf("GET %s → %d", o.Path, v.status)
	for _, name := range names {
		if values := v.header[http.CanonicalHeaderKey(name)]; len(values) > 0 {
			text += fmt.Sprintf(", %s: %.200s", name, strings.Join(values, ", "))
		} else {
			text += ", no " + name
		}
	}
	return text
}

// judgePage judges the caching header of a page.
func (o Origin) judgePage(v visit) (found []Finding) {
	page := o.Name + ": the page " + o.Path + " "
	switch {
	case v.status >= http.StatusInternalServerError:
		return nil
	case o.Off:
		return []Finding{{Severity: Note, What: page + "is not cached: its route has cache: off", Do: "nothing, if that is meant"}}
	case o.redirectsToItself(v):
		problem, do := leak.WhyNotCached(httpcache.RefusedSelfRedirect)
		return []Finding{{Severity: Warning, What: page + "is " + problem, Evidence: []string{v.seen(o, "Location")}, Do: do}}
	case v.status >= http.StatusMultipleChoices:
		return []Finding{{
			Severity: Note, What: fmt.Sprintf("%sanswers with status %d, so that its caching header was not examined", page, v.status),
			Evidence: []string{v.seen(o)}, Do: "set hosts in isr.yaml (or --host) if the site answers only to its own host",
		}}
	}
	rules := httpcache.Rules{Revalidate: time.Duration(o.Revalidate * float64(time.Second)), Strict: o.Strict, MaxBody: 1 << 40, MaxHeader: o.MaxHeader, Requested: time.Now(), InKey: o.inKey}
	if verdict := rules.Judge(v.status, v.header); verdict.Refused != "" {
		problem, do := leak.WhyNotCached(verdict.Refused)
		evidence := v.seen(o, "Cache-Control", "Expires", "Vary")
		if verdict.Cause != nil {
			evidence += "; " + verdict.Cause.Error()
		}
		if n := len(v.header["Set-Cookie"]); n > 0 {
			evidence += fmt.Sprintf(", %d Set-Cookie (%s)", n, cookieNames(v.header))
		}
		found = append(found, Finding{Severity: Warning, What: page + "is " + problem, Evidence: []string{evidence}, Do: do})
	}
	if v.header.Get("Date") == "" {
		found = append(found, Finding{Severity: Note, What: page + "has no Date, which an origin with a clock must send (RFC 9110, section 6.6.1)", Evidence: []string{v.seen(o, "Date")}})
	}
	if v.header.Get("Age") != "" {
		found = append(found, Finding{
			Severity: Note, What: page + "comes from another cache behind isr, whose age shortens its freshness",
			Evidence: []string{v.seen(o, "Age", "Via")}, Do: "give the address of the site itself in origins." + o.Name + ".url, or purge that cache too",
		})
	}
	return found
}

// redirectsToItself reports whether a page redirects to a URL with the host and path that it has,
// whatever its scheme.
func (o Origin) redirectsToItself(v visit) bool {
	at, err := url.Parse(v.address)
	if err != nil || v.status < http.StatusMultipleChoices || v.status >= http.StatusBadRequest {
		return false
	}
	path, pathOK := canonical.Path(o.Path)
	host, hostOK := canonical.Host(cmp.Or(o.Host, at.Host))
	if !pathOK || !hostOK {
		return false
	}
	to, ok := canonical.Location(&url.URL{Scheme: "http", Host: host, Path: path}, v.header.Get("Location"))
	if !ok || to.RawQuery != "" {
		return false
	}
	toPath, pathOK := canonical.Path(to.EscapedPath())
	toHost, hostOK := canonical.Host(to.Host)
	return pathOK && hostOK && toPath == path && toHost == host
}

func (o Origin) inKey(name string) bool {
	return slices.ContainsFunc(o.Headers, func(h string) bool { return strings.EqualFold(h, name) }) || o.Vary && name != "Cookie" && name != "User-Agent" && name != "Authorization"
}

// cookieNames lists the names of cookies, without their values.
func cookieNames(h http.Header) string {
	var names []string
	for _, line := range h["Set-Cookie"] {
		name, _, _ := strings.Cut(line, "=")
		names = append(names, name)
	}
	return listed(names, 5)
}

// ClockOf is the clock of an origin.
func (o Origin) ClockOf(address string) Clock {
	return Clock{Name: address, Header: func(ctx context.Context) (http.Header, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodHead, strings.TrimSuffix(address, "/")+o.Path, http.NoBody)
		if err != nil {
			return nil, err
		}
		r.Host = o.Host
		// A certificate that is not valid is another finding: no credentials are sent.
		transport := &http.Transport{DisableKeepAlives: true, MaxResponseHeaderBytes: maxHeader, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // only Date is read
		res, err := transport.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		return res.Header, res.Body.Close()
	}}
}
