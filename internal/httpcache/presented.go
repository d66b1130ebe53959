package httpcache

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// maxPresented bounds a text of [Presented], in bytes. S3 allows 2 KB for all metadata of an object.
const maxPresented = 8 << 10

// Presented returns the status and the header of a stored response of which only the status, Content-Type
// and Content-Security-Policy are known, as text; those that are not stated are empty. A status that is not
// stated is 200. An error states why the response must not be served: it is neither a page nor an answer such as
// 404 that means the same for all visitors, or would be shown without its policy.
func Presented(status, contentType, policy string) (code int, h http.Header, err error) {
	code = http.StatusOK
	if status != "" {
		if code, err = presentedStatus(status); err != nil {
			return 0, nil, err
		}
	}
	h = make(http.Header)
	if contentType != "" {
		media, _, _ := strings.Cut(contentType, ";")
		kind, subtype, _ := strings.Cut(strings.TrimRight(media, " "), "/")
		if !IsToken(kind) || !IsToken(subtype) || !presentable(contentType) {
			return 0, nil, fmt.Errorf("content type %.100q is no media type", contentType)
		}
		h.Set("Content-Type", contentType)
	}
	if policy != "" {
		if !presentable(policy) {
			return 0, nil, fmt.Errorf("content security policy %.100q is no text of at most %d ASCII characters", policy, maxPresented)
		}
		h.Set("Content-Security-Policy", policy)
	}
	return code, h, nil
}

func presentedStatus(text string) (int, error) {
	code, err := strconv.Atoi(text)
	switch {
	case err != nil || len(text) != 3:
		return 0, fmt.Errorf("%.100q is no status", text)
	case code >= 300 && code < 400:
		return 0, fmt.Errorf("status %d is a redirect, whose Location is not known", code)
	case !MayBeStored(code) || failedStatus(code):
		return 0, fmt.Errorf("status %d is not the status of a page", code)
	}
	return code, nil
}

// presentable reports whether a text may be sent as one of the fields, whose syntax is ASCII. S3 returns
// other metadata encoded by RFC 2047.
func presentable(v string) bool {
	if len(v) > maxPresented || strings.TrimSpace(v) != v || strings.HasPrefix(v, "=?") {
		return false
	}
	for i := range len(v) {
		if v[i] < ' ' || v[i] > '~' {
			return false
		}
	}
	return true
}
