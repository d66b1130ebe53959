package admin_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/facetheory/isr/internal/admin"
)

func TestProcess(t *testing.T) {
	f := newFixture(t)
	if a := f.ask("GET", "/-/process", ""); a.status != 409 || a.code != "not_serving" {
		t.Errorf("without a server: %d %s", a.status, a.text)
	}
	want := admin.Process{
		Name: "web-1:42", Config: "0123456789ab", Memory: 1 << 20, Files: 1024, OpenFiles: 12, Limit: 1 << 30,
		Origins:   []admin.ProcessOrigin{{Name: "site", URLs: []string{"http://127.0.0.1:3000"}, Path: "/"}},
		Listeners: []admin.ProcessListener{{Address: "127.0.0.1:8080", Trusted: []string{"10.0.0.0/8"}}},
		Requests:  5,
		Peers:     []admin.ProcessPeer{{Address: "10.0.0.1", Trusted: true, Requests: 5, Forwarding: 4, Fields: []string{"X-Forwarded-For"}}},
	}
	f.serve(admin.Config{Cache: f.cache, Version: "v1", Place: "here", Process: func() admin.Process { return want }})
	got, err := f.client().Process(t.Context())
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(admin.Process{}, "Version", "Store", "Started")); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	if got.Version != "v1" || got.Store != "here" || got.Started.IsZero() {
		t.Errorf("%+v", got)
	}
	for address, local := range map[string]bool{"http://127.0.0.1:9180": true, "http://localhost:9180": true, "https://[::1]:1": true, "https://isr.example": false, "http://10.0.0.1:1": false} {
		if c, err := admin.NewClient(address, "", nil); err != nil || c.Local() != local {
			t.Errorf("%s: %v, local %v", address, err, !local)
		}
	}
	f.ask("GET", "/-/process", "") // checked against the document
}
