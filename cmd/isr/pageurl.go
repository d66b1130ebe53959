package main

import "net/url"

// parsePageURL parses the URL of a page: http or https, with a host and without credentials.
func parsePageURL(text string) (*url.URL, bool) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil {
		return nil, false
	}
	return u, true
}
