package e2e

import (
	"net/http"
	"testing"
	"time"
)

// A page that its origin has withdrawn is not served again, neither after kill -9 nor when
// rendering fails, until it is rendered again.
func TestWithdrawnPageStaysAway(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	o.set("/kept", page(1, 0))
	s := embedded(t)
	g := serve(t, s, o)
	get(t, g.url+"/kept")
	awaitClock(t, "the page to expire", o.times("/kept")[0].Add(time.Second))
	o.set("/kept", forbidden)
	get(t, g.url+"/kept") // the last who gets the copy
	await(t, "the page to be withdrawn", patience, func() bool { return g.get(t, host+"/kept").State == "withdrawn" })
	if r := get(t, g.url+"/kept"); r.status != http.StatusForbidden {
		t.Errorf("after the withdrawal: %s", r)
	}
	g.kill()

	o.set("/kept", internalError)
	g = serve(t, s, o)
	if r := get(t, g.url+"/kept"); r.status != http.StatusInternalServerError {
		t.Errorf("after a restart, while the origin fails: %s", r)
	}
	o.set("/kept", page(60, 0))
	await(t, "the page to be back", patience, func() bool {
		r := get(t, g.url+"/kept")
		return r.status == http.StatusOK && renderingOf("/kept", r.body) > 1
	})
}

func forbidden(w http.ResponseWriter, _ *http.Request, _ int) {
	http.Error(w, "You are not allowed to see this.", http.StatusForbidden)
}
