// Package monitoring_test checks the dashboard and the alerts in deploy against the metrics of
// the server, which docs/metrics.md lists; a test of internal/telemetry/metrics compares that table with
// the registry.
package monitoring_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"
)

const (
	documentation = "../../docs/metrics.md"
	dashboard     = "../../deploy/grafana/isr.json"
	alerts        = "../../deploy/prometheus/alerts.yml"
	alertTests    = "../../deploy/prometheus/alerts_test.yml"
)

// known are the labels of each metric, by its name in expressions: histograms have three.
type known map[string][]string

// documented returns the metrics of the documentation, and the metrics of Prometheus and the process
// that expressions use.
func documented(t *testing.T) known {
	t.Helper()
	k := known{"up": nil, "process_open_fds": nil, "process_max_fds": nil, "process_resident_memory_bytes": nil, "process_start_time_seconds": nil, "go_goroutines": nil}
	row := regexp.MustCompile("(?m)^\\| `([a-z0-9_]+)` \\| (counter|gauge|histogram) \\| ([^|]*) \\|")
	for _, match := range row.FindAllStringSubmatch(string(read(t, documentation)), -1) {
		var labels []string
		for label := range strings.SplitSeq(match[3], ",") {
			labels = append(labels, strings.Trim(label, " `"))
		}
		if match[2] != "histogram" {
			k[match[1]] = labels
			continue
		}
		k[match[1]+"_bucket"] = append([]string{"le"}, labels...)
		k[match[1]+"_sum"], k[match[1]+"_count"] = labels, labels
	}
	if len(k) < 60 {
		t.Fatalf("%s has only %d metrics", documentation, len(k))
	}
	return k
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// check parses an expression, and compares its metrics and labels with the known ones. It
// returns the metrics.
func (k known) check(t *testing.T, expression string) (metrics []string) {
	t.Helper()
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(expression)
	if err != nil {
		t.Errorf("%s: %v", expression, err)
		return nil
	}
	may := []string{"job", "instance"} // of the scrape
	var asked []string
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		switch node := node.(type) {
		case *parser.VectorSelector:
			has, ok := k[node.Name]
			if !ok {
				t.Errorf("%s: there is no metric %s", expression, node.Name)
			}
			metrics = append(metrics, node.Name)
			may = append(may, has...)
			for _, m := range node.LabelMatchers {
				if m.Name != model.MetricNameLabel && !slices.Contains(has, m.Name) && m.Name != "job" && m.Name != "instance" {
					t.Errorf("%s: %s has no label %s", expression, node.Name, m.Name)
				}
			}
		case *parser.AggregateExpr:
			asked = append(asked, node.Grouping...)
		}
		return nil
	})
	for _, label := range asked {
		if !slices.Contains(may, label) {
			t.Errorf("%s: none of its metrics has the label %s", expression, label)
		}
	}
	return metrics
}

func TestDashboard(t *testing.T) {
	k := documented(t)
	type panel struct {
		Title, Type string
		GridPos     struct{ X, Y, W, H int }
		Datasource  struct{ UID string }
		Targets     []struct{ Expr string }
	}
	var board struct {
		Title, UID string
		Panels     []panel
		Templating struct {
			List []struct {
				Name, Type string
				Definition string
			}
		}
		Annotations struct{ List []struct{ Expr string } }
	}
	if err := json.Unmarshal(read(t, dashboard), &board); err != nil {
		t.Fatal(err)
	}
	interval := strings.NewReplacer("$__rate_interval", "5m", "$__range", "1h")
	shown := make(map[string]bool)
	for i, p := range board.Panels {
		for _, target := range p.Targets {
			for _, name := range k.check(t, interval.Replace(target.Expr)) {
				shown[regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, "")] = true
			}
		}
		if p.Type != "row" && (len(p.Targets) == 0 || p.Datasource.UID != "${datasource}") {
			t.Errorf("the panel %s has no query, or a data source of its own", p.Title)
		}
		for _, other := range board.Panels[:i] {
			a, b := p.GridPos, other.GridPos
			if a.X < b.X+b.W && b.X < a.X+a.W && a.Y < b.Y+b.H && b.Y < a.Y+a.H {
				t.Errorf("the panels %s and %s overlap", p.Title, other.Title)
			}
		}
	}
	for _, a := range board.Annotations.List {
		k.check(t, interval.Replace(a.Expr))
	}
	var variables []string
	values := regexp.MustCompile(`^label_values\((.*), ([a-z]+)\)$`)
	for _, v := range board.Templating.List {
		variables = append(variables, v.Name)
		if v.Type != "query" {
			continue
		}
		match := values.FindStringSubmatch(v.Definition)
		if match == nil {
			t.Errorf("the variable %s is %q", v.Name, v.Definition)
			continue
		}
		k.check(t, "count by ("+match[2]+") ("+match[1]+")")
	}
	if want := []string{"datasource", "job", "instance", "route"}; !slices.Equal(variables, want) {
		t.Errorf("the variables are %v, expected %v", variables, want)
	}
	for name := range k {
		name = regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, "")
		hidden := []string{"isr_config_last_reload_success_timestamp_seconds", "isr_polls_total", "isr_flights"}
		if strings.HasPrefix(name, "isr_") && !shown[name] && !slices.Contains(hidden, name) {
			t.Errorf("no panel shows %s", name)
		}
	}
}

// rules are the rules of a file of Prometheus.
type rules struct {
	Groups []struct {
		Name  string
		Rules []struct {
			Record, Alert, Expr string
			Labels, Annotations map[string]string
		}
	}
}

// Each alert says what has happened, what that means, and what to do.
func TestAlerts(t *testing.T) {
	k := documented(t)
	var file rules
	if err := yaml.Unmarshal(read(t, alerts), &file); err != nil {
		t.Fatal(err)
	}
	tests, n := string(read(t, alertTests)), 0
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			k.check(t, rule.Expr)
			if rule.Record != "" {
				k[rule.Record] = []string{"job", "instance"}
				continue
			}
			n++
			for _, name := range []string{"summary", "description", "action"} {
				if rule.Annotations[name] == "" {
					t.Errorf("%s has no %s", rule.Alert, name)
				}
			}
			if s := rule.Labels["severity"]; s != "page" && s != "ticket" {
				t.Errorf("the severity of %s is %q", rule.Alert, s)
			}
			if !strings.Contains(tests, rule.Alert) {
				t.Errorf("%s has no test", rule.Alert)
			}
		}
	}
	if n < 15 {
		t.Errorf("there are only %d alerts", n)
	}
}

// The examples of the documentation are expressions of metrics that exist.
func TestDocumentation(t *testing.T) {
	k := documented(t)
	expression := regexp.MustCompile("(?s)```\n  (sum.*?)\n  ```")
	found := expression.FindAllStringSubmatch(string(read(t, documentation)), -1)
	if len(found) == 0 {
		t.Error("found no expression")
	}
	for _, match := range found {
		k.check(t, match[1])
	}
	for _, name := range regexp.MustCompile("`(isr_[a-z0-9_]+|http_[a-z_]+_seconds)[`{]").FindAllStringSubmatch(string(read(t, documentation)), -1) {
		if k[name[1]] == nil && k[name[1]+"_bucket"] == nil {
			if _, ok := k[name[1]]; !ok {
				t.Errorf("the documentation names %s", name[1])
			}
		}
	}
}

// The alerts are raised and end when they should, by the tests of promtool.
func TestAlertsWithPromtool(t *testing.T) {
	promtool := os.Getenv("ISR_TEST_PROMTOOL")
	if promtool == "" {
		t.Skip("ISR_TEST_PROMTOOL is not set; ./test sets it if promtool is installed")
	}
	for _, arguments := range [][]string{{"check", "rules", alerts}, {"test", "rules", alertTests}} {
		if out, err := exec.CommandContext(t.Context(), promtool, arguments...).CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(arguments, " "), err, out)
		}
	}
}
