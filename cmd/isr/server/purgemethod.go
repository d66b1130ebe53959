package server

import (
	"log/slog"
	"net/http"

	"github.com/facetheory/isr/cmd/isr/cli"
	"github.com/facetheory/isr/gateway"
	"github.com/facetheory/isr/internal/admin"
)

// purgeFlags configure the method PURGE at the public address.
type purgeFlags struct {
	PurgeMethod bool     `help:"Purge pages by requests with the method PURGE at --listen, with the token of the admin API or from --purge-from."`
	PurgeFrom   []string `sep:"," placeholder:"CIDR" help:"Network whose clients may purge with the method PURGE without a token: a CIDR like 10.0.0.0/8, an address, loopback or private; repeatable (none)."`
}

func (f *purgeFlags) validate(embedded bool, plan adminPlan) error {
	switch {
	case len(f.PurgeFrom) > 0 && !f.PurgeMethod:
		return cli.Usagef("--purge-from needs --purge-method")
	case f.PurgeMethod && len(f.PurgeFrom) == 0 && !embedded && plan.secret == "":
		return cli.Usagef("--purge-method with --table needs a token that all servers share, in %s; or give --purge-from CIDR", TokenVariable)
	}
	if _, err := gateway.ParseTrust(f.PurgeFrom); err != nil {
		return cli.Usagef("--purge-from %v", err)
	}
	return nil
}

// withPurgeMethod adds the method PURGE to the handler of the site, if it is enabled.
func (c *ServeCommand) withPurgeMethod(site *gateway.Site, a *administration, plan adminPlan, f *Folder, s *cli.Streams, log *slog.Logger) (http.Handler, error) {
	if !c.PurgeMethod {
		return site, nil
	}
	networks, _ := gateway.ParseTrust(c.PurgeFrom) // validated
	cfg := admin.PurgeMethodConfig{
		Admit:        func(r *http.Request) bool { return gateway.FromNetworks(r, networks) },
		TenantHeader: site.TenantHeader,
	}
	if plan.secret != "" || c.Table == "" {
		token, err := plan.token(f, s, log)
		if err != nil {
			return nil, err
		}
		cfg.Token = &token
	}
	return a.api.PurgeMethod(cfg, site), nil
}
