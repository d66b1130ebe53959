package isr

import (
	"errors"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/facetheory/isr/internal/httpcache"
)

// Validate returns a *[ConfigError] for each invalid field, joined; nil if there is none.
func (rt Route) Validate() error {
	var errs []error
	if rt.Auto.enabled() && rt.Revalidate != 0 {
		errs = append(errs, configErrorf("Revalidate", "must be zero, because Auto is set (got %s)", rt.Revalidate))
	}
	if err := rt.Auto.validate(); err != nil {
		errs = append(errs, err)
	}
	if rt.OptIn < OptInExplicit || rt.OptIn > OptInStrict {
		errs = append(errs, configErrorf("OptIn", "must be OptInExplicit or OptInStrict (got %d)", int(rt.OptIn)))
	}
	if !rt.Policy.valid() {
		errs = append(errs, configErrorf("Policy", "must be ServeStale or Wait (got %d)", int(rt.Policy)))
	}
	if !rt.UnsafeRequests.valid() {
		errs = append(errs, configErrorf("UnsafeRequests", "must be UnsafeHard, UnsafeSoft or UnsafeIgnore (got %d)", int(rt.UnsafeRequests)))
	}
	if !(rt.EarlyRefresh >= 0 && rt.EarlyRefresh <= maxEarlyRefresh) { // as NaN is neither
		errs = append(errs, configErrorf("EarlyRefresh", "must be between 0 and %d (got %v)", maxEarlyRefresh, rt.EarlyRefresh))
	}
	if !(rt.Jitter <= maxJitter) {
		errs = append(errs, configErrorf("Jitter", "must be between 0 and %v (got %v)", maxJitter, rt.Jitter))
	}
	if rt.History < 0 || rt.History > maxHistory {
		errs = append(errs, configErrorf("History", "must be between 0 and %d (got %d)", maxHistory, rt.History))
	}
	if rt.MaxVariants < 0 || rt.MaxVariants > maxMaxVariants {
		errs = append(errs, configErrorf("MaxVariants", "must be between 0 and %d (got %d)", maxMaxVariants, rt.MaxVariants))
	}
	errs = append(errs, rt.validateWindows(), rt.validateReject())
	report := func(field, format string, args ...any) { errs = append(errs, configErrorf(field, format, args...)) }
	rules, view := rt.rules(), rt.viewRules()
	rules.Validate(report)
	view.Validate(report)
	return errors.Join(errs...)
}

// validateWindows checks the fields that bound times and sizes.
func (rt Route) validateWindows() error {
	var errs []error
	if rt.RenderTimeout < 0 || rt.RenderTimeout > 24*time.Hour {
		errs = append(errs, configErrorf("RenderTimeout", "must be between 0 and 24h (got %s)", rt.RenderTimeout))
	}
	if rt.Wait < 0 || rt.Wait > 24*time.Hour {
		errs = append(errs, configErrorf("Wait", "must be between 0 and 24h (got %s)", rt.Wait))
	}
	if rt.MaxBody < 0 {
		errs = append(errs, configErrorf("MaxBody", "must not be negative (got %d bytes)", rt.MaxBody))
	}
	return errors.Join(errs...)
}

// maxHistory bounds [Route.History]: all versions of a page are read in one query.
const maxHistory = 100

// maxJitter bounds [Route.Jitter].
const maxJitter = 0.5

// Bounds of [Reject].
const (
	maxRejectTexts = 32
	maxRejectText  = 1024
)

func (rt Route) validateReject() error {
	var errs []error
	if r := rt.Reject.SmallerThan; !(r >= 0 && r <= 1) { // as NaN is neither
		errs = append(errs, configErrorf("Reject", "must have a SmallerThan between 0 and 1 (got %v)", r))
	}
	for _, texts := range [][]string{rt.Reject.Without, rt.Reject.With} {
		if n := len(texts); n > maxRejectTexts {
			errs = append(errs, configErrorf("Reject", "must have at most %d texts of a kind (got %d)", maxRejectTexts, n))
		}
		for _, text := range texts {
			if text == "" || len(text) > maxRejectText || !utf8.ValidString(text) {
				errs = append(errs, configErrorf("Reject", "must have texts of 1 to %d bytes of UTF-8 (got %.100q)", maxRejectText, text))
			}
		}
	}
	for _, text := range rt.Reject.With {
		if slices.Contains(rt.Reject.Without, text) {
			errs = append(errs, configErrorf("Reject", "must not have the text %.100q in With and in Without", text))
		}
	}
	if n := len(rt.Reject.LostHeaders); n > maxRejectTexts {
		errs = append(errs, configErrorf("Reject", "must have at most %d LostHeaders (got %d)", maxRejectTexts, n))
	}
	for _, name := range rt.Reject.LostHeaders {
		if !httpcache.IsToken(name) {
			errs = append(errs, configErrorf("Reject", "must have LostHeaders that are names of header fields (got %.100q)", name))
		}
	}
	return errors.Join(errs...)
}

// maxMaxVariants bounds [Route.MaxVariants]: the variants are read to be counted.
const maxMaxVariants = 256
