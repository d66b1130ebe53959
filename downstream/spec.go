package downstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"regexp"
	"strings"

	"github.com/facetheory/isr/store"
)

// A Spec describes a destination on the command line: NAME=KIND:ADDRESS.
//
//	cdn=cloudfront:E123ABC          a distribution; ?tags=on if it has a CacheTagConfig
//	edge=fastly:SERVICE             a service
//	cf=cloudflare:ZONE              a zone
//	dc2=isr:https://isr.example     the admin API of another isr
//	v1=varnish:http://10.0.0.5      a Varnish server with the VCL of docs/cdn.md
//
// ?endpoint=URL replaces the address of the API of fastly, cloudflare and cloudfront.
// Secrets are not part of it: see [Spec.Token].
type Spec struct {
	// Name identifies the destination in the outbox; see [store.ValidDestination].
	Name string
	// Kind is cloudfront, fastly, cloudflare, isr or varnish.
	Kind string
	// Address is the id of the distribution, service or zone, or the URL of the server.
	Address string
	// Endpoint is the URL of the API; empty: the vendor's own URL.
	Endpoint string
	// Tags: the CloudFront distribution has a CacheTagConfig.
	Tags bool
}

// ParseSpec parses a description. Its errors do not contain the description's address,
// in which a secret may have been written by mistake.
func ParseSpec(text string) (Spec, error) {
	name, rest, _ := strings.Cut(text, "=")
	kind, address, found := strings.Cut(rest, ":")
	if !found {
		return Spec{}, errors.New("expected NAME=KIND:ADDRESS, like cdn=cloudfront:E123ABC or v1=varnish:http://10.0.0.5")
	}
	s := Spec{Name: name, Kind: kind}
	if err := store.ValidDestination(name); err != nil {
		return Spec{}, err
	}
	address, query, _ := strings.Cut(address, "?")
	s.Address = address
	if err := s.options(query); err != nil {
		return Spec{}, fmt.Errorf("%s: %w", name, err)
	}
	if err := s.checkAddress(); err != nil {
		return Spec{}, fmt.Errorf("%s: %w", name, err)
	}
	return s, nil
}

// options reads what follows '?'.
func (s *Spec) options(query string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return errors.New("the options after ? are not name=value")
	}
	for option, all := range values {
		switch value := all[0]; {
		case len(all) > 1:
			return fmt.Errorf("the option %.40q is repeated", option)
		case option == "tags" && s.Kind == "cloudfront" && (value == "on" || value == "off"):
			s.Tags = value == "on"
		case option == "endpoint" && (s.Kind == "fastly" || s.Kind == "cloudflare" || s.Kind == "cloudfront"):
			if s.Endpoint, err = checkEndpoint(value, true); err != nil {
				return fmt.Errorf("endpoint: %w", err)
			}
		default:
			return fmt.Errorf("unknown option %.40q of %s; there are tags=on (cloudfront) and endpoint=URL (cloudfront, fastly, cloudflare)", option, s.Kind)
		}
	}
	return nil
}

// identifier is the form of the ids of distributions, services and zones.
var identifier = regexp.MustCompile(`^[A-Za-z0-9]{1,64}$`)

func (s *Spec) checkAddress() (err error) {
	switch s.Kind {
	case "cloudfront", "fastly", "cloudflare":
		if !identifier.MatchString(s.Address) {
			return fmt.Errorf("the id after %s: must consist of 1 to 64 letters and digits", s.Kind)
		}
	case "isr":
		s.Address, err = checkEndpoint(s.Address, true)
	case "varnish":
		s.Address, err = checkEndpoint(s.Address, false)
	default:
		return fmt.Errorf("unknown kind %.40q; there are cloudfront, fastly, cloudflare, isr and varnish", s.Kind)
	}
	return err
}

// checkEndpoint returns a URL without a slash at its end. secret: a token is sent there,
// which needs HTTPS except on this machine.
func checkEndpoint(text string, secret bool) (string, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return "", errors.New("the address is not a URL; expected one like https://isr.example or http://10.0.0.5")
	case u.User != nil:
		return "", errors.New("the address has a user name or password; remove it, and set the token in the environment")
	case u.RawQuery != "" || u.Fragment != "":
		return "", errors.New("the address has a query or fragment; expected only scheme, host and port")
	case secret && u.Scheme != "https" && !isLoopback(u.Hostname()):
		return "", errors.New("the address must begin with https://, because a token is sent there")
	}
	return strings.TrimRight(text, "/"), nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Variable is the environment variable of the token: ISR_DOWNSTREAM_<NAME>_TOKEN, with the
// name in upper case and '_' for '-'. With _FILE appended, it names a file with the token,
// which is read for each delivery.
func (s Spec) Variable() string {
	return "ISR_DOWNSTREAM_" + strings.ToUpper(strings.ReplaceAll(s.Name, "-", "_")) + "_TOKEN"
}

// Token returns the secret of the destination from the environment, nil if there is
// none. CloudFront needs none: it uses the credentials of AWS. For Varnish it is optional.
func (s Spec) Token(env func(string) string) (Token, error) {
	secret, file := env(s.Variable()), env(s.Variable()+"_FILE")
	switch {
	case secret != "" && file != "":
		return nil, fmt.Errorf("%s: %s and %s_FILE are both set; unset one of them", s.Name, s.Variable(), s.Variable())
	case s.Kind == "cloudfront" && secret+file != "":
		return nil, fmt.Errorf("%s: %s is set, but CloudFront uses the credentials of AWS; unset it", s.Name, s.Variable())
	case secret != "":
		if _, err := tokenOf([]byte(secret)); err != nil {
			return nil, fmt.Errorf("%s: %w", s.Variable(), err)
		}
		return func() (string, error) { return tokenOf([]byte(secret)) }, nil
	case file != "":
		if _, err := tokenIn(file); err != nil {
			return nil, fmt.Errorf("%s_FILE: %w", s.Variable(), err)
		}
		return func() (string, error) { return tokenIn(file) }, nil
	case s.Kind == "cloudfront", s.Kind == "varnish":
		return nil, nil
	}
	return nil, fmt.Errorf("%s: no token; set %s, or %s_FILE to the name of a file that contains it", s.Name, s.Variable(), s.Variable())
}

// maxToken bounds the length of a token, in bytes.
const maxToken = 4096

func tokenIn(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", fmt.Errorf("open token file: %w", err)
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxToken+2))
	if err != nil {
		return "", fmt.Errorf("read token file: %w", err)
	}
	token, err := tokenOf(text)
	if err != nil {
		return "", fmt.Errorf("token file %s: %w", name, err)
	}
	return token, nil
}

// tokenOf returns a token without the white space around it.
func tokenOf(text []byte) (string, error) {
	token := strings.TrimSpace(string(text))
	if !printable(token, maxToken, "") {
		return "", fmt.Errorf("the token must be 1 to %d characters of visible ASCII", maxToken)
	}
	return token, nil
}

// Open returns the destination. cloudFront makes the client of CloudFront, with the
// endpoint of the spec, and is called for that kind only.
func (s Spec) Open(ctx context.Context, token Token, cloudFront func(ctx context.Context, endpoint string) (CloudFrontAPI, error)) (Destination, error) {
	switch s.Kind {
	case "cloudfront":
		api, err := cloudFront(ctx, s.Endpoint)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.Name, err)
		}
		return NewCloudFront(api, s.Address, s.Tags), nil
	case "fastly":
		return NewFastly(s.Address, cmp.Or(s.Endpoint, FastlyEndpoint), token), nil
	case "cloudflare":
		return NewCloudflare(s.Address, cmp.Or(s.Endpoint, CloudflareEndpoint), token), nil
	case "isr":
		return NewISR(s.Address, token), nil
	}
	return NewVarnish(s.Address, token), nil
}
