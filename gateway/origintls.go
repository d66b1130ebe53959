package gateway

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
)

// Values of [Origin].Host. Any other is the host itself.
const (
	HostVisitor = "visitor" // the host that the visitor has requested
	HostURL     = "url"     // the host of the address
)

// An OriginTLS is how https addresses are connected to.
type OriginTLS struct {
	// ServerName is the name that the certificate of the server must have, and that is sent to it (SNI). Empty means the
	// host of the address.
	ServerName string
	// MinVersion is the oldest version, as crypto/tls has it. Zero means TLS 1.2.
	MinVersion uint16
	// CA are the roots that the certificate of the server is verified with, in PEM. Nil means those of the system.
	CA []byte
	// Cert and Key are the certificate that the gateway shows to the server, and its key, in PEM. Nil means none.
	Cert, Key []byte
}

// Config returns the configuration of a client.
func (t OriginTLS) Config() (*tls.Config, error) {
	cfg := &tls.Config{ServerName: t.ServerName, MinVersion: max(t.MinVersion, tls.VersionTLS12)}
	if t.CA != nil {
		if cfg.RootCAs = x509.NewCertPool(); !cfg.RootCAs.AppendCertsFromPEM(t.CA) {
			return nil, errors.New("ca_file has no certificate in PEM")
		}
	}
	if t.Cert != nil {
		pair, err := tls.X509KeyPair(t.Cert, t.Key)
		if err != nil {
			return nil, fmt.Errorf("client certificate: %w", err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg, nil
}

// hostOf returns the Host of a visitor's request or a render, as it is sent to an address.
func (p *pool) hostOf(r *http.Request, a *address) string {
	switch p.host {
	case "":
		if a.url.Scheme == "https" {
			return a.url.Host
		}
		return r.Host
	case HostVisitor:
		return r.Host
	case HostURL:
		return a.url.Host
	}
	return p.host
}

// fixedHost is the host that all requests have; empty if there is none.
func (p *pool) fixedHost() string {
	if p.host == HostVisitor || p.host == HostURL {
		return ""
	}
	return p.host
}
