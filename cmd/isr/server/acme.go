package server

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/facetheory/isr/internal/acme"
	"github.com/facetheory/isr/internal/config"
)

// useACME prepares the certificates of the listeners that use ACME, whose addresses are open.
// data is the data folder. Nothing is requested before the first edge.
func (p *public) useACME(f *config.File, data string) error {
	if f.CertificateHosts() == nil {
		return nil
	}
	cfg := acme.Config{Directory: f.ACME.Directory, Email: f.ACME.Email, KeyID: f.ACME.ExternalAccount.KeyID, Storage: f.ACME.Storage, Logger: p.log}
	for _, l := range p.listeners {
		challenge := &cfg.HTTP
		if l.cfg.Encrypted() {
			challenge = &cfg.TLSALPN
		}
		if f.AnswersChallenges(l.cfg) && *challenge == nil {
			*challenge = l.inner.Addr()
		}
	}
	if cfg.Storage == "" {
		cfg.Storage = filepath.Join(data, "acme")
	}
	var err error
	if cfg.HMACKey, err = f.ACME.ExternalAccount.HMACKey.Read(); err != nil {
		return fmt.Errorf("acme.external_account.hmac_key: %w", err)
	}
	if cfg.Roots, err = f.ACME.Roots(); err != nil {
		return fmt.Errorf("acme.ca_file: %w", err)
	}
	if p.acme, err = acme.New(cfg); err != nil {
		return fmt.Errorf("acme.storage: %w", err)
	}
	for _, l := range p.listeners {
		if l.cfg.ACME {
			l.tls = p.acme.TLSConfig()
		}
	}
	return nil
}

// problems returns what is wrong with certificates.
func (p *public) problems() (all []problem) {
	if p.acme == nil {
		return nil
	}
	for _, text := range p.acme.Problems() {
		all = append(all, problem{checkCertificates, text})
	}
	return all
}

// closeACME stops obtaining certificates.
func (p *public) closeACME(ctx context.Context) error {
	if p.acme == nil {
		return nil
	}
	return p.acme.Close(ctx)
}
