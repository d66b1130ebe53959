package admin

import (
	"context"
	"log/slog"
	"time"
)

// audit logs a change, whether it succeeded or failed.
func (a *API) audit(ctx context.Context, v visitor, op operation, target string, err error, took time.Duration) {
	result := "ok"
	if err != nil {
		result = describe(err).Code
	}
	a.log.LogAttrs(context.WithoutCancel(ctx), slog.LevelInfo, "admin change", slog.Group("audit",
		slog.String("remote", v.remote), slog.String("token", v.token), slog.String("action", op.name),
		slog.String("target", target), slog.String("result", result), slog.Duration("took", took.Round(time.Microsecond))))
}
