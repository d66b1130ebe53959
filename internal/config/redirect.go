package config

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/facetheory/isr/internal/redirect"
)

// RedirectTable returns the redirects of the file, for which it reads redirects_file; nil if there are none.
func (f *File) RedirectTable() (*redirect.Table, error) {
	if len(f.Redirects) == 0 && f.RedirectsFile == "" {
		return nil, nil //nolint:nilnil // there are none
	}
	exact, err := f.readRedirects()
	if err != nil {
		return nil, fmt.Errorf("redirects_file: %w", err)
	}
	t, err := redirect.New(f.redirectRules(), exact, f.servesHost)
	if err != nil {
		return nil, fmt.Errorf("redirects: %w", err)
	}
	return t, nil
}

func (f *File) readRedirects() ([]redirect.Rule, error) {
	if f.RedirectsFile == "" {
		return nil, nil
	}
	return redirect.ReadFile(f.RedirectsFile)
}

func (f *File) redirectRules() []redirect.Rule {
	rules := make([]redirect.Rule, len(f.Redirects))
	for i, r := range f.Redirects {
		status, _ := strconv.Atoi(r.Status) // one of the enum
		rules[i] = redirect.Rule{From: r.From, To: r.To, Status: status, Drop: r.Query == "drop", Place: fmt.Sprintf("redirects[%d]", i)}
	}
	return rules
}

func (f *File) validateRedirects(d *decoder) {
	_, err := redirect.New(f.redirectRules(), nil, f.servesHost)
	f.failRedirects(d, err)
}

// failRedirects reports the errors of redirects.
func (f *File) failRedirects(d *decoder, err error) {
	for _, err := range joined(err) {
		var wrong *redirect.RuleError
		switch {
		case errors.As(err, &wrong) && !wrong.Exact:
			d.failAt(wrong.Place, "%s", wrong.Problem)
		default:
			d.failAt("redirects_file", "%v", err)
		}
	}
}

// joined returns the errors that an error joins.
func joined(err error) []error {
	if many, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // of errors.Join
		return many.Unwrap()
	}
	if err == nil {
		return nil
	}
	return []error{err}
}

// checkRedirectsFile reports what is wrong with redirects_file.
func (f *File) checkRedirectsFile(d *decoder) {
	exact, err := f.readRedirects()
	if err != nil {
		for _, err := range joined(err) {
			d.failAt("redirects_file", "%v%s", err, relativeTo(f.RedirectsFile))
		}
		return
	}
	if len(exact) > 0 && !d.isBroken("redirects") {
		_, err := redirect.New(f.redirectRules(), exact, f.servesHost)
		f.failRedirects(d, err)
	}
}
