package admin

import (
	"net/http"
	"time"

	"github.com/facetheory/isr/internal/telemetry/live"
)

// An Activity is what a server knows of one page besides what is stored.
type Activity struct {
	live.PageActivity
	Failing *live.FailingPage `json:"failing,omitempty" doc:"Its trouble, if its latest render by this server failed."`
	Changes []AuditEntry      `json:"changes" doc:"The latest changes of the page that were requested of this server, at most 100; for the admin token only."`
}

// shownChanges bounds the changes of a page that are shown.
const shownChanges = 100

func (a *API) showActivity() operation {
	return replying(operation{
		method: http.MethodGet, path: "/-/page/activity", name: "showActivity", limit: lookTime,
		summary: "Show what this server knows of the requests, renders and changes of a page.",
	}, func(r *http.Request, t Target) (Activity, error) {
		k, err := t.key()
		if err != nil {
			return Activity{}, err
		}
		shown := Activity{PageActivity: live.PageActivity{Key: k.Text, Tenant: k.Tenant}, Changes: []AuditEntry{}}
		if m := a.cfg.Live; m != nil {
			shown.PageActivity = m.PageActivity(time.Now(), k)
			if failing, ok := m.FailingPage(k); ok {
				shown.Failing = &failing
			}
		}
		if visitorOf(r).role == RoleAdmin {
			shown.Changes = a.trail.latest(k.String(), shownChanges)
		}
		return shown, nil
	})
}
