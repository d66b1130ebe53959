package httpconn

import (
	"crypto/tls"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync/atomic"
	"time"
)

// A CertificateFile names the PEM files of a certificate: its chain, and its private key.
type CertificateFile struct {
	Cert, Key string
}

// Certificates are certificates in files that are read again when they change. Methods are
// safe for concurrent use.
type Certificates struct {
	files   []CertificateFile
	log     *slog.Logger
	current atomic.Pointer[[]tls.Certificate]
	watched fileWatch
}

// LoadCertificates reads certificates. There must be one at least. Nil log means
// slog.Default().
func LoadCertificates(files []CertificateFile, log *slog.Logger) (*Certificates, error) {
	if log == nil {
		log = slog.Default()
	}
	c := &Certificates{files: files, log: log}
	if len(files) == 0 {
		return nil, errors.New("there are no certificates")
	}
	for _, f := range files {
		c.watched.paths = append(c.watched.paths, f.Cert, f.Key)
	}
	c.watched.begin()
	loaded, err := c.load()
	if err != nil {
		return nil, err
	}
	c.current.Store(&loaded)
	return c, nil
}

// Get returns the certificate for a handshake: the first that supports the client and the
// host that it asks for, or else the first one. It is a GetCertificate of [tls.Config].
func (c *Certificates) Get(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.refresh()
	all := *c.current.Load()
	for i := range all {
		if hello.SupportsCertificate(&all[i]) == nil {
			return &all[i], nil
		}
	}
	return &all[0], nil
}

// Ending yields the files of the certificates that end within a time, and a text for people. Certificates that last for a few days are
// renewed later than others: they end within a fifth of their lifetime, at most.
func (c *Certificates) Ending(within time.Duration) iter.Seq2[string, string] {
	return func(yield func(file, text string) bool) {
		c.refresh()
		all, now := *c.current.Load(), time.Now()
		for i := range all {
			leaf := all[i].Leaf
			if leaf == nil || leaf.NotAfter.Sub(now) > min(within, leaf.NotAfter.Sub(leaf.NotBefore)/5) {
				continue
			}
			ends := "ends"
			if !leaf.NotAfter.After(now) {
				ends = "has ended"
			}
			text := fmt.Sprintf("the certificate in %s %s at %s: renew it, and replace the file", c.files[i].Cert, ends, leaf.NotAfter.UTC().Format(time.RFC3339))
			if !yield(c.files[i].Cert, text) {
				return
			}
		}
	}
}

// refresh reads the files again if one of them has changed. If they cannot be used, such as
// between the writes of a certificate and its key, the previous certificates stay until the
// files change again.
func (c *Certificates) refresh() {
	c.watched.changed(func() {
		loaded, err := c.load()
		if err != nil {
			c.log.Error("failed to read changed certificates, the previous ones stay in use", "error", err)
			return
		}
		c.current.Store(&loaded)
		c.log.Info("read changed certificates", "certificates", len(loaded))
	})
}

func (c *Certificates) load() ([]tls.Certificate, error) {
	loaded := make([]tls.Certificate, len(c.files))
	for i, f := range c.files {
		var err error
		if loaded[i], err = tls.LoadX509KeyPair(f.Cert, f.Key); err != nil {
			return nil, fmt.Errorf("certificate %s with key %s: %w", f.Cert, f.Key, err)
		}
	}
	return loaded, nil
}
