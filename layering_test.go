package isr_test

import (
	"os/exec"
	"strings"
	"testing"
)

// The packages may know each other in one direction only.
func TestLayering(t *testing.T) {
	const module = "github.com/facetheory/isr"
	rules := []struct {
		pkg    string
		never  []string
		reason string
	}{
		{"", []string{"github.com/aws/", module + "/dynamostore", module + "/localdynamo", module + "/s3body", module + "/dirbody", module + "/gateway", module + "/internal/acme"}, "the policy must not depend on a store"},
		{"/store", []string{"github.com/aws/", module + "$", module + "/internal/httpcache", module + "/internal/httpconn"}, "the seam to storage knows neither the policy nor a store"},
		{"/gc", []string{"github.com/aws/", module + "$", module + "/internal/httpcache", module + "/dynamostore"}, "garbage collection needs the seam alone"},
		{"/budget", []string{"github.com/aws/", module}, "the limits of an origin need no cache"},
		{"/buffers", []string{"github.com/aws/", module}, "a budget of bytes knows nothing of what they are"},
		{"/internal/peer", []string{module + "$", module + "/dynamostore", module + "/gateway", module + "/internal/config", "github.com/aws/"}, "hints need the seam alone"},
		{"/downstream", []string{module + "$", module + "/dynamostore", module + "/gateway"}, "deliveries need the seam alone"},
		{"/internal/bodies", []string{module + "$", module + "/internal/fleet", module + "/internal/peer", "github.com/aws/"}, "a body is read by its entry, and peers are asked through functions"},
		{"/internal/breaker", []string{module + "$", module + "/store"}, "the breaker counts answers, and knows no store"},
		{"/internal/cachekey", []string{module + "$", module + "/internal/marks", "github.com/aws/"}, "keys depend on requests alone"},
		{"/internal/changelog", []string{module + "$", module + "/internal/marks", module + "/internal/fleet", "github.com/aws/"}, "the log knows nothing of what its changes are for"},
		{"/internal/encoder", []string{module + "$", module + "/internal/changelog", module + "/internal/fleet", "github.com/aws/"}, "codings are made of pages, wherever these are kept"},
		{"/internal/fleet", []string{module + "$", module + "/internal/peer", "github.com/aws/"}, "the list of nodes needs the seam alone"},
		{"/internal/fill", []string{module + "$", module + "/downstream", module + "/gateway", "github.com/aws/"}, "a fill knows a policy and what it is given, no cache and no route"},
		{"/internal/frequency", []string{module}, "the sketch must not depend on the cache"},
		{"/internal/telemetry/live", []string{module + "/gateway", module + "/dynamostore", "github.com/aws/"}, "counting needs the reports of the cache alone"},
		{"/internal/generations", []string{module + "$", module + "/internal/nodecache", module + "/internal/fill", "github.com/aws/"}, "operators write what fills write, and need none of them"},
		{"/internal/guard", []string{module + "$", module + "/internal/marks", module + "/downstream", "github.com/aws/"}, "the guard of the stores knows no policy"},
		{"/internal/invalidate", []string{module + "$", "github.com/aws/"}, "purges need the seam alone"},
		{"/internal/purge", []string{module + "$", module + "/internal/nodecache", module + "/internal/fill", "github.com/aws/"}, "a purge tells a process what it was given"},
		{"/internal/render", []string{module + "$", module + "/budget", "github.com/aws/"}, "a render knows no key and no route"},
		{"/internal/page", []string{module + "$", module + "/internal/changelog", module + "/internal/fleet", "github.com/aws/"}, "a page is sent by what it is made of, wherever it is kept"},
		{"/internal/nodecache", []string{module + "$", module + "/internal/changelog", module + "/internal/fleet", "github.com/aws/"}, "what a node knows is judged by what it is told, whoever tells it"},
		{"/internal/warm", []string{module + "$", module + "/gateway", module + "/internal/config", "github.com/aws/"}, "a schedule knows pages by what it is told"},
		{"/internal/notices", []string{module + "$", module + "/gateway", module + "/internal/config", "github.com/aws/"}, "problems are told, whatever has them"},
		{"/internal/offload", []string{module + "$", "github.com/aws/"}, "pages go to any queue"},
		{"/internal/suspicion", []string{module + "$", "github.com/aws/"}, "a response is compared with an entry, wherever that is"},
		{"/internal/storable", []string{module + "$", module + "/internal/fill", module + "/internal/page", "github.com/aws/"}, "a response is judged by rules, keys and tags"},
		{"/internal/singleflight", []string{module + "$", module + "/internal/marks", "github.com/aws/"}, "a flight knows nothing of what its search does"},
		{"/internal/variants", []string{module + "$", module + "/internal/nodecache", "github.com/aws/"}, "variants are listed in a table"},
		{"/internal/local", []string{module + "$", module + "/downstream", "github.com/aws/"}, "a stub is answered by what it is given"},
		{"/internal/localfile", []string{module}, "files know no store"},
		{"/cmd/isr", []string{module + "/internal/localfile/crashfs"}, "the file system that loses what was not synced is for tests"},
		{"/cmd/isr/cli", []string{module + "/cmd/isr/server"}, "what all commands share does not know a server"},
		{"/cmd/isr/server", []string{module + "/cmd/isr$"}, "a server does not know the commands"},
		{"/internal/marks", []string{module + "$", module + "/internal/httpcache"}, "the table of marks needs the seam alone"},
		{"/internal/httpcache", []string{module}, "the rules of HTTP caching are pure functions"},
		{"/internal/details", []string{module + "$", module + "/store", module + "/gateway"}, "texts know no cache"},
		{"/internal/coding", []string{module + "$", module + "/store"}, "codings are made of bytes"},
		{"/internal/conformance", []string{module}, "the suite tests any cache"},
		{"/internal/wellknown", []string{module}, "names know no cache"},
		{"/internal/canonical", []string{module}, "URL normalization must not depend on the cache"},
		{"/internal/redirect", []string{module + "$", module + "/gateway", module + "/internal/config", "github.com/aws/"}, "redirects depend on requests alone"},
		{"/internal/doctor", []string{module + "$", module + "/gateway", module + "/internal/config"}, "the doctor is told what to examine"},
		{"/internal/doctor/leak", []string{module + "$", module + "/store", module + "/gateway"}, "the leak test sees a site from outside"},
		{"/internal/logreader", []string{module}, "a log is read without what is made of it"},
		{"/internal/assess", []string{module + "/internal/config", module + "/cmd"}, "a forecast is given its configuration"},
		{"/internal/survey", []string{module + "$", module + "/store", module + "/gateway", module + "/internal/config"}, "a site is surveyed from outside"},
		{"/internal/cost", []string{module}, "bills are calculated"},
		{"/internal/units", []string{module}, "numbers are written without what they count"},
		{"/internal/nginx", []string{module + "$", module + "/store", module + "/gateway", module + "/internal/config"}, "directives are translated to text"},
		{"/internal/visit", []string{module}, "pages are visited without a cache"},
		{"/internal/draft", []string{module + "$", module + "/store", module + "/gateway"}, "tokens know no cache"},
		{"/internal/telemetry/accesslog", []string{module + "/gateway", module + "/internal/config", "github.com/aws/", "go.opentelemetry.io/"}, "a line is made of an exchange alone"},
		{"/internal/telemetry/tracing", []string{module + "/gateway", module + "/internal/config", "github.com/aws/"}, "spans are made of what the cache tells"},
		{"/internal/telemetry", []string{module + "/gateway", module + "/internal/config", module + "/dynamostore", "github.com/aws/", "go.opentelemetry.io/"}, "sinks and observers are told by the cache alone"},
		{"/internal/httpconn", []string{module, "github.com/aws/"}, "sockets must not depend on the policy"},
		{"/internal/http3", []string{module + "$", module + "/gateway", module + "/internal/config", "github.com/aws/"}, "a transport knows no site"},
		{"/internal/handover", []string{module}, "sockets know no server"},
		{"/internal/acme", []string{module + "$", module + "/gateway", "github.com/aws/"}, "certificates need no cache"},
		{"/isrtest", []string{"github.com/aws/", module + "/dynamostore", module + "/localdynamo"}, "the suite must not depend on a store"},
		{"/gateway", []string{"github.com/aws/", module + "/dynamostore", module + "/localdynamo", module + "/internal/acme"}, "the gateway knows the cache only"},
		{"/internal/admin", []string{"github.com/aws/", module + "/dynamostore", module + "/localdynamo"}, "operators are answered from the interfaces of the cache"},
		{"/internal/config", []string{module + "/internal/acme", "github.com/caddyserver/"}, "a file is checked without what it configures"},
		{"/trigger", []string{"github.com/aws/", module + "/dynamostore", module + "/localdynamo"}, "webhooks need neither AWS nor a store"},
		{"/localdynamo", []string{module + "/dynamostore", module + "/gateway"}, "the engine must not depend on the cache"},
		{"/dynamostore", []string{module + "$", module + "/localdynamo", module + "/gateway"}, "the store knows neither its engine nor the policy"},
		{"/tabletheory", []string{module + "/localdynamo", module + "/dynamostore", module + "/gateway", "github.com/aws/aws-sdk-go-v2/service/kms", "github.com/aws/aws-sdk-go-v2/feature/dynamodb/"}, "the mapper must not depend on the cache or another encoder; KMS is optional"},
		{"/tabletheory/envelope", []string{module + "/tabletheory/internal", "github.com/aws/aws-sdk-go-v2/service/kms"}, "encryption knows attributes, not models"},
		{"/tabletheory/internal/model", []string{module + "/tabletheory"}, "the model of structs rests on nothing of ours"},
		{"/dirbody", []string{module + "$", "github.com/aws/"}, "a folder needs no cloud and no policy"},
		{"/s3body", []string{module + "$", module + "/dynamostore", module + "/localdynamo"}, "bodies know no metadata and no policy"},
	}
	for _, rule := range rules {
		out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", module+rule.pkg).Output()
		if err != nil {
			t.Fatalf("go list %s%s: %v", module, rule.pkg, err)
		}
		for dep := range strings.FieldsSeq(string(out)) {
			for _, never := range rule.never {
				if matches(dep, never) && dep != module+rule.pkg && !strings.HasPrefix(dep, module+rule.pkg+"/internal") {
					t.Errorf("%s%s depends on %s: %s", module, rule.pkg, dep, rule.reason)
				}
			}
		}
	}
}

// matches reports whether a package path begins with a prefix, or is the path before a "$".
func matches(dep, prefix string) bool {
	if exact, ok := strings.CutSuffix(prefix, "$"); ok {
		return dep == exact
	}
	return strings.HasPrefix(dep, prefix)
}
