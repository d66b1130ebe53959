package server

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"time"

	"github.com/facetheory/isr/internal/acme"
	"github.com/facetheory/isr/internal/config"
)

// An acmeUse is what certificates are obtained by. A reload keeps the certificates that are obtained by the same.
type acmeUse struct {
	config.ACME
	hmacKey       string
	storage       string
	tlsALPN, http string // the addresses of challenges
}

// useACME prepares the certificates of the listeners that use ACME, whose addresses are open.
// Nothing is requested before the first edge.
func (p *public) useACME(ctx context.Context, next *listening, s *setup) (err error) {
	f := s.file
	if f.CertificateHosts() == nil {
		return nil
	}
	cfg := acme.Config{Directory: f.ACME.Directory, Email: f.ACME.Email, KeyID: f.ACME.ExternalAccount.KeyID, Storage: cmp.Or(f.ACME.Storage, filepath.Join(s.Data, "acme")), Logger: p.log}
	next.acmeOf = acmeUse{ACME: f.ACME, storage: cfg.Storage}
	for _, l := range next.listeners {
		challenge, address := &cfg.HTTP, &next.acmeOf.http
		if l.cfg.Encrypted() {
			challenge, address = &cfg.TLSALPN, &next.acmeOf.tlsALPN
		}
		if f.AnswersChallenges(l.cfg) && *challenge == nil {
			*challenge, *address = l.inner.Addr(), l.inner.Addr().String()
		}
	}
	if cfg.HMACKey, err = f.ACME.ExternalAccount.HMACKey.Read(); err != nil {
		return fmt.Errorf("acme.external_account.hmac_key: %w", err)
	}
	next.acmeOf.hmacKey = cfg.HMACKey
	if now := p.now(); now.acme != nil && reflect.DeepEqual(now.acmeOf, next.acmeOf) {
		next.acme = now.acme
	} else if next.acme, err = p.newACME(cfg, f); err != nil {
		return err
	}
	return p.certify(ctx, next)
}

// newACME returns certificates that request nothing yet.
func (p *public) newACME(cfg acme.Config, f *config.File) (c *acme.Certificates, err error) {
	if cfg.Roots, err = f.ACME.Roots(); err != nil {
		return nil, fmt.Errorf("acme.ca_file: %w", err)
	}
	if c, err = acme.New(cfg); err != nil {
		return nil, fmt.Errorf("acme.storage: %w", err)
	}
	return c, nil
}

// certify has the listeners with ACME use its certificates. Listeners that serve with others are opened again.
func (p *public) certify(ctx context.Context, next *listening) (err error) {
	now := p.now()
	for i, l := range next.listeners {
		if !l.cfg.ACME {
			continue
		}
		if slices.Contains(now.listeners, l) {
			if next.acme == now.acme {
				continue
			}
			if l, err = p.openAgain(ctx, l, l.listenerUse); err != nil {
				return err
			}
			next.listeners[i] = l
		}
		l.tls = next.acme.TLSConfig()
	}
	return nil
}

// endingSoon is how long before the end of a certificate in a file it is a problem: whoever renews it does so weeks before.
const endingSoon = 14 * 24 * time.Hour

// problems returns what is wrong with certificates.
func (p *public) problems() (all []problem) {
	now := p.now()
	for _, l := range now.listeners {
		if l.certificates == nil {
			continue
		}
		for file, text := range l.certificates.Ending(endingSoon) {
			all = append(all, problem{checkCertificates, file, text})
		}
	}
	if now.acme == nil {
		return all
	}
	for _, c := range now.acme.Problems() {
		all = append(all, problem{checkCertificates, c.Host, c.Text})
	}
	return all
}

// closeACME stops obtaining certificates.
func (at *listening) closeACME(ctx context.Context) error {
	if at.acme == nil {
		return nil
	}
	return at.acme.Close(ctx)
}
