package aws

import (
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.yaml.in/yaml/v4"
)

// A call is one action on one resource, as IAM names them: "dynamodb:GetItem" on "Table", or
// "s3:GetObject" on "Bucket/bodies/…".
type call struct{ action, resource string }

// A policy is what a managed policy of the template allows. It is safe for concurrent use.
type policy struct {
	allowed []call      // resources are patterns
	outage  atomic.Bool // the table does not answer

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
	if len(p.allowed) < 2 {
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

// uses returns how often a member of allowed was used.
func (p *policy) uses(c call) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.used[c]
}

// await waits for the use of a member of allowed.
func (p *policy) await(t *testing.T, c call) {
	t.Helper()
	await(t, c.action+" on "+c.resource, func() bool { return p.uses(c) > 0 })
}

// check fails the test if the policy refused a call, or if an action was not used that is not one of
// elsewhere: those that another test proves.
func (p *policy) check(t *testing.T, elsewhere ...call) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, text := range slices.Sorted(maps.Keys(p.refused)) {
		t.Errorf("the policy refused %s", text)
	}
	for _, a := range p.allowed {
		if p.used[a] == 0 && !slices.Contains(elsewhere, a) {
			t.Errorf("%s on %s is allowed and was not used", a.action, a.resource)
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
