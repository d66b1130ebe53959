package config

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/gateway"
)

// maxSmall bounds the size of a file with certificates, keys or a page, in bytes.
const maxSmall = 1 << 20

// checkFiles reports files that a server needs at its start and that are missing, or are not what they should be. Files
// with secrets are read as their fields are decoded.
func (f *File) checkFiles(d *decoder) {
	for i, l := range f.Listen {
		for j, c := range l.TLS {
			f.checkCertificate(d, c, fmt.Sprintf("listen[%d].tls[%d]", i, j))
		}
		if path := l.TLSPolicy.TicketKeys; path != "" {
			if _, err := l.TLSPolicy.ReadTicketKeys(); err != nil {
				d.failAt(fmt.Sprintf("listen[%d].tls_policy.ticket_keys", i), "%v%s", err, relativeTo(path))
			}
		}
	}
	if _, err := f.ACME.Roots(); err != nil {
		d.failAt("acme.ca_file", "%v%s", err, relativeTo(f.ACME.CAFile))
	}
	for name, o := range f.Origins {
		if _, err := o.TLS.Read(); err != nil {
			d.failAt("origins."+name+".tls", "%v", err)
		}
	}
	checked := make(map[string]bool)
	f.Protection.checkFiles(checked, func(name string, err error) { d.failAt(name, "%v", err) })
	for i, r := range f.Routes {
		r.Protection.checkFiles(checked, func(name string, err error) { d.failSetting(fmt.Sprintf("routes[%d]", i), name, "%v", err) })
	}
	if f.RedirectsFile != "" {
		f.checkRedirectsFile(d)
	}
	for status, path := range f.ErrorPages {
		if _, err := ReadPage(path); err != nil {
			d.failAt("error_pages."+status, "%v%s", err, relativeTo(path))
		}
	}
	if path := f.Maintenance.Page; path != "" {
		if _, err := ReadPage(path); err != nil {
			d.failAt("maintenance.page", "%v%s", err, relativeTo(path))
		}
	}
	if path := f.AccessLog.Path; path != "" && path != "-" {
		if info, err := os.Stat(filepath.Dir(path)); err != nil || !info.IsDir() {
			d.failAt("access_log.path", "the folder %s does not exist%s; create it", filepath.Dir(path), relativeTo(path))
		}
	}
}

// pageTypes are the content types of the pages that a file may have, by the ends of their names.
func pageTypes() map[string]string {
	return map[string]string{
		".html": "text/html; charset=utf-8", ".htm": "text/html; charset=utf-8", ".txt": "text/plain; charset=utf-8",
		".json": "application/json", ".xml": "application/xml",
	}
}

// ReadPage reads the page of an error from a file, at most 1 MiB.
func ReadPage(path string) (p isr.ErrorPage, err error) {
	if err := check("pageFile", path); err != nil {
		return p, fmt.Errorf("%s: %w", path, err)
	}
	p.ContentType = pageTypes()[strings.ToLower(filepath.Ext(path))]
	p.Body, err = readSmall(path)
	if err == nil && len(p.Body) == 0 {
		err = errors.New(path + " is empty")
	}
	return p, err
}

// Roots reads the certificates of ca_file, at most 1 MiB; nil if there is none.
func (a ACME) Roots() (*x509.CertPool, error) {
	if a.CAFile == "" {
		return nil, nil //nolint:nilnil // there are none
	}
	text, err := readSmall(a.CAFile)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, errors.New(a.CAFile + " has no certificate in PEM")
	}
	return roots, nil
}

// Read reads the files, at most 1 MiB each, and checks what is in them.
func (t OriginTLS) Read() (gateway.OriginTLS, error) {
	read := gateway.OriginTLS{ServerName: t.ServerName, MinVersion: tls.VersionTLS12}
	if t.MinVersion == "1.3" {
		read.MinVersion = tls.VersionTLS13
	}
	for _, file := range []struct {
		path string
		text *[]byte
	}{{t.CAFile, &read.CA}, {t.Cert, &read.Cert}, {t.Key, &read.Key}} {
		if file.path == "" {
			continue
		}
		var err error
		if *file.text, err = readSmall(file.path); err != nil {
			return read, fmt.Errorf("%w%s", err, relativeTo(file.path))
		}
	}
	_, err := read.Config()
	return read, err
}

// maxTicketKeys bounds how many keys a ticket is tried with.
const maxTicketKeys = 16

// ReadTicketKeys reads the keys of ticket_keys. Its errors have no keys.
func (p TLSPolicy) ReadTicketKeys() (keys [][32]byte, err error) {
	text, err := readSmall(p.TicketKeys)
	if err != nil {
		return nil, err
	}
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, err := base64.StdEncoding.DecodeString(line)
		if err != nil || len(key) != 32 {
			return nil, fmt.Errorf("line %d of %s is not a key of 32 bytes in base64; make one with: openssl rand -base64 32", number, p.TicketKeys)
		}
		keys = append(keys, [32]byte(key))
	}
	switch {
	case len(keys) == 0:
		return nil, fmt.Errorf("%s has no key; make one with: openssl rand -base64 32", p.TicketKeys)
	case len(keys) > maxTicketKeys:
		return nil, fmt.Errorf("%s has %d keys, and at most %d are used; remove the last ones, which are the oldest", p.TicketKeys, len(keys), maxTicketKeys)
	}
	return keys, nil
}

func (f *File) checkCertificate(d *decoder, c Certificate, at string) {
	certificate, certErr := readSmall(c.Cert)
	if certErr != nil && c.Cert != "" {
		d.failAt(at+".cert", "%v%s", certErr, relativeTo(c.Cert))
	}
	key, keyErr := readSmall(c.Key)
	if keyErr != nil && c.Key != "" {
		d.failAt(at+".key", "%v%s", keyErr, relativeTo(c.Key))
	}
	if certErr != nil || keyErr != nil {
		return
	}
	if _, err := tls.X509KeyPair(certificate, key); err != nil {
		d.failAt(at, "%s and %s are not a certificate and its key: %v", c.Cert, c.Key, err)
	}
}

// readSmall reads a small file.
func readSmall(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.LimitReader(file, maxSmall+1))
	if err == nil && len(text) > maxSmall {
		err = errors.New(path + " is larger than 1MiB")
	}
	return text, err
}

// relativeTo names the working directory, which a relative path is relative to; empty for an absolute one.
func relativeTo(path string) string {
	folder, err := os.Getwd()
	if filepath.IsAbs(path) || err != nil {
		return ""
	}
	return fmt.Sprintf(" (relative to %s, the working directory)", folder)
}
