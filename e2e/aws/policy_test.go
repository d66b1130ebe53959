package aws

import (
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/goccy/go-yaml"
)

// A call is one action on one resource, as IAM names them: "dynamodb:GetItem" on "Table", or
// "s3:GetObject" on "Bucket/bodies/…".
type call struct{ action, resource string }

// A policy is what a managed policy of the template allows. It is safe for concurrent use.
type policy struct {
	allowed []call // resources are patterns

	mu      sync.Mutex
	used    map[call]int    // by member of allowed
	refused map[string]bool // calls that nothing allows
}

type statement struct {
	Sid      string `yaml:"Sid"`
	Effect   string `yaml:"Effect"`
	Action   any    `yaml:"Action"`   // a list of strings, in managed policies
	Resource any    `yaml:"Resource"` // a string, there
}

// readPolicy returns a policy of the template by its logical id.
func readPolicy(t *testing.T, id string) *policy {
	t.Helper()
	text, err := os.ReadFile("../../deploy/cloudformation/store.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var template struct {
		Resources map[string]struct {
			Properties struct {
				PolicyDocument struct {
					Statement []statement `yaml:"Statement"`
				} `yaml:"PolicyDocument"`
			} `yaml:"Properties"`
		} `yaml:"Resources"`
	}
	// The functions' arguments are enough: !GetAtt Table.Arn, !Sub '${Bucket.Arn}/bodies/*'.
	if err := yaml.Unmarshal([]byte(functions.Replace(string(text))), &template); err != nil {
		t.Fatalf("store.yaml: %v", err)
	}
	p := &policy{used: make(map[call]int), refused: make(map[string]bool)}
	for _, s := range template.Resources[id].Properties.PolicyDocument.Statement {
		if s.Effect != "Allow" {
			t.Fatalf("%s: statement %s has the effect %s", id, s.Sid, s.Effect)
		}
		resource := strings.NewReplacer("${", "", "}", "", ".Arn", "").Replace(s.Resource.(string))
		for _, action := range s.Action.([]any) {
			p.allowed = append(p.allowed, call{action.(string), resource})
		}
	}
	if len(p.allowed) < 5 {
		t.Fatalf("%s allows only %v", id, p.allowed)
	}
	return p
}

var functions = strings.NewReplacer("!GetAtt ", "", "!Sub ", "", "!Ref ", "")

// allow reports whether the policy allows a call, and counts it.
func (p *policy) allow(c call) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	allowed := false
	for _, a := range p.allowed {
		if a.action == c.action && matches(a.resource, c.resource) {
			p.used[a]++
			allowed = true
		}
	}
	if !allowed {
		p.refused[fmt.Sprintf("%s on %s", c.action, c.resource)] = true
	}
	return allowed
}

// matches reports whether a resource matches a pattern of IAM, with * at its end.
func matches(pattern, resource string) bool {
	if prefix, any := strings.CutSuffix(pattern, "*"); any {
		return strings.HasPrefix(resource, prefix)
	}
	return pattern == resource
}

// check fails the test if the policy refused a call, or if an action was not used and has no reason.
func (p *policy) check(t *testing.T, unused map[call]string) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, text := range slices.Sorted(maps.Keys(p.refused)) {
		t.Errorf("the policy refused %s", text)
	}
	for _, a := range p.allowed {
		reason, excused := unused[a]
		switch {
		case p.used[a] == 0 && !excused:
			t.Errorf("%s on %s is allowed and was not used", a.action, a.resource)
		case p.used[a] > 0 && excused:
			t.Errorf("%s on %s was used, %d times, although %s", a.action, a.resource, p.used[a], reason)
		}
	}
	t.Logf("used: %v", p.used)
}

func TestMatches(t *testing.T) {
	t.Parallel()
	for pattern, resources := range map[string][2]string{
		"Table":           {"Table", "Table/index/x"},
		"Bucket/bodies/*": {"Bucket/bodies/1/2", "Bucket/isr-check"},
	} {
		if !matches(pattern, resources[0]) || matches(pattern, resources[1]) {
			t.Errorf("%s: it must match %s, and not %s", pattern, resources[0], path.Clean(resources[1]))
		}
	}
}
