package trigger

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// The examples of signature.test.ts in sanity-io/webhook-toolkit, whose secrets are shorter
// than NewSecret allows.
func TestSanityExamples(t *testing.T) {
	for _, test := range []struct {
		name, header, body, secret string
		ok                         bool
	}{
		{"valid", "t=1633519811129,v1=tLa470fx7qkLLEcMOcEUFuBbRSkGujyskxrNXcoh0N0", `{"_id":"resume"}`, "test", true},
		{"other time", "t=1633519811128,v1=tLa470fx7qkLLEcMOcEUFuBbRSkGujyskxrNXcoh0N0", `{"_id":"resume"}`, "test", false},
		{"other hash", "t=1633519811129,v1=tLa470fx7qkLLEcMOcEUFuBbRSkGujyskxrNXcoh0N1", `{"_id":"resume"}`, "test", false},
		{"other payload", "t=1633519811129,v1=tLa470fx7qkLLEcMOcEUFuBbRSkGujyskxrNXcoh0N0", `{"_id":"structure"}`, "test", false},
		{"encoded", "t=1633518820676,v1=e7C9h2sfbFfc4V7TEz7PSOp4IoNzl0UdVsBV-1wgdeA", `{"title":"GROQ-Hooks are neat"}`, "try-me", true},
	} {
		r := httptest.NewRequest("POST", "/-/hooks/cms", strings.NewReader(test.body))
		r.Header.Set("Sanity-Webhook-Signature", test.header)
		_, err := Sanity.verify(r, []byte(test.body), []Secret{{test.secret}}, time.UnixMilli(1633519811129))
		if (err == nil) != test.ok {
			t.Errorf("%s: got %v, want success %v", test.name, err, test.ok)
		}
	}
}
