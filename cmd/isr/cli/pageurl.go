package cli

import (
	"net/url"

	"github.com/facetheory/isr/internal/canonical"
)

// ParsePageURL parses the URL of a page as browsers read it: http or https, with a host and without
// credentials.
func ParsePageURL(text string) (*url.URL, bool) {
	u, err := url.Parse(canonical.Address(text))
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil {
		return nil, false
	}
	return u, true
}
