package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/facetheory/isr/cmd/isr/cli"
	"github.com/facetheory/isr/internal/doctor"
)

// The exit code is 0 for notes, 1 for warnings, and 2 for faults.
func TestDoctorExitCodes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		severities []doctor.Severity
		code       int
		text       string
	}{
		{nil, 0, ""},
		{[]doctor.Severity{doctor.OK, doctor.Note}, 0, ""},
		{[]doctor.Severity{doctor.Warning, doctor.Note}, 1, "found 1 warning"},
		{[]doctor.Severity{doctor.Fault}, 2, "found 1 fault"},
		{[]doctor.Severity{doctor.Warning, doctor.Fault, doctor.Fault}, 2, "found 2 faults and 1 warning"},
	} {
		report := doctorReport{Report: new(doctor.Report)}
		for _, s := range test.severities {
			report.Add(doctor.NewRedactor(), doctor.Finding{Check: "table", Severity: s, What: "a text"})
		}
		err := new(doctorCommand).conclude(new(bytes.Buffer), report, 0)
		code, text := 0, ""
		if usage := (*cli.UsageError)(nil); errors.As(err, &usage) {
			code = 2
		} else if err != nil {
			code = 1
		}
		if err != nil {
			text = err.Error()
		}
		if code != test.code || text != test.text {
			t.Errorf("%q: exit code %d, %q; want %d, %q", test.severities, code, text, test.code, test.text)
		}
	}
}

// startSite sets SITE to the URL of a site with a page for everyone, a private page, and a page
// that depends on Accept-Language without saying so. It runs until the script ends.
func startSite(ts *testscript.TestScript, _ bool, _ []string) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Cache-Control", "s-maxage=60")
		switch r.URL.Path {
		case "/":
			fmt.Fprint(w, `<a href="/account">Account</a>`)
		case "/account":
			w.Header().Set("Cache-Control", "private")
			fmt.Fprint(w, r.Header.Get("Cookie"))
		case "/news":
			fmt.Fprint(w, "News in "+r.Header.Get("Accept-Language"))
		}
	}))
	ts.Defer(server.Close)
	ts.Setenv("SITE", server.URL)
}
