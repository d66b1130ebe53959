package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"
)

// required are the values that have no default.
const required = `
hosts: [example.com]
origin: http://site:3000
store: {table: pages, bucket: my-pages, region: eu-west-1}
`

// everything sets what is off or empty by default.
const everything = required + `
image: {digest: "sha256:` + "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef" + `", pullSecrets: [{name: registry}]}
secret: tokens
config:
  defaults: {render_timeout: 20s}
  health: {drain: 20s}
  listen: [{address: ":8080", trusted_proxies: [10.0.0.0/8]}]
trustedProxies: [192.168.0.0/16]
autoscaling: {enabled: true, minReplicas: 3, maxReplicas: 20}
disruption: {maxUnavailable: 25%}
terminationGracePeriodSeconds: 90
serviceAccount: {name: reader, annotations: {eks.amazonaws.com/role-arn: "arn:aws:iam::123456789012:role/isr"}}
service: {type: LoadBalancer, port: 8000, annotations: {a.example.com/b: c}}
networkPolicy: {visitors: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: ingress}}}], metrics: []}
serviceMonitor: {enabled: true, labels: {release: prometheus}}
podAnnotations: {d: e}
podLabels: {f: g}
nodeSelector: {h: i}
tolerations: [{key: j, operator: Exists}]
affinity: {nodeAffinity: {}}
priorityClassName: high
`

// TestChart renders and lints the chart of Helm, decodes the objects strictly, and checks them like the manifests of
// deploy/kubernetes.
func TestChart(t *testing.T) {
	dir := filepath.Join(repository(t), "deploy/helm/isr")
	page, err := os.ReadFile(filepath.Join(repository(t), "docs/kubernetes.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, documented, _ := strings.Cut(string(page), "cat >values.yaml <<'EOF'\n")
	documented, _, found := strings.Cut(documented, "EOF\n")
	if !found {
		t.Fatal("docs/kubernetes.md has no values.yaml")
	}
	for name, values := range map[string]string{"required": required, "everything": everything, "docs/kubernetes.md": documented} {
		t.Run(name, func(t *testing.T) {
			if _, err := helm(t, values, "lint", "--strict", dir); err != nil { // warnings are errors
				t.Error(err)
			}
			m := rendered(t, dir, values)
			m.check(t)
			m.checkReferences(t)
			m.checkNetwork(t)
			switch {
			case name == "everything":
				m.checkChosen(t)
			case name == "required" && (m.scaler.Name != "" || m.monitor.Name != "" || *m.deployment.Spec.Replicas != 2):
				t.Errorf("without values: %+v, %+v, %d replicas", m.scaler, m.monitor, *m.deployment.Spec.Replicas)
			}
		})
	}
}

// checkReferences checks the names by which the objects refer to each other.
func (m *manifests) checkReferences(t *testing.T) {
	t.Helper()
	pod, jobs := m.deployment.Spec.Template.Spec, m.jobs.Spec.JobTemplate.Spec.Template.Spec
	for what, pair := range map[string][2]string{
		"service account of the servers": {pod.ServiceAccountName, m.account.Name},
		"service account of the jobs":    {jobs.ServiceAccountName, m.account.Name},
		"image of the jobs":              {jobs.Containers[0].Image, pod.Containers[0].Image},
		"arguments of the jobs":          {strings.Join(jobs.Containers[0].Args, " "), "gc --table=pages --bucket=my-pages --region=eu-west-1"},
	} {
		if pair[0] != pair[1] {
			t.Errorf("the %s is %q, want %q", what, pair[0], pair[1])
		}
	}
	if *pod.AutomountServiceAccountToken || *jobs.AutomountServiceAccountToken {
		t.Error("pods get a token of the cluster")
	}
	mounts := make(map[string]string)
	for _, mount := range pod.Containers[0].VolumeMounts {
		mounts[mount.Name] = mount.MountPath
	}
	file := m.configuration(t)
	if mounts["data"] != file.Store.Data || pod.Volumes[2].EmptyDir == nil || mounts["secrets"] != "/run/secrets/isr" || pod.Volumes[1].Secret == nil {
		t.Errorf("volumes %+v at %v, and isr.yaml has %+v", pod.Volumes, mounts, file.Store)
	}
}

// checkNetwork checks that the network policy is of the servers, and names the ports of their container alone.
func (m *manifests) checkNetwork(t *testing.T) {
	t.Helper()
	servers := labels.Set(m.deployment.Spec.Template.Labels)
	if !labels.SelectorFromSet(m.network.Spec.PodSelector.MatchLabels).Matches(servers) {
		t.Errorf("the network policy is of %v", m.network.Spec.PodSelector)
	}
	from := make(map[string]int)
	for _, rule := range m.network.Spec.Ingress {
		from[rule.Ports[0].Port.StrVal] = len(rule.From)
		if rule.Ports[0].Port.StrVal == "peer" && !labels.SelectorFromSet(rule.From[0].PodSelector.MatchLabels).Matches(servers) {
			t.Errorf("servers do not reach each other: %+v", rule)
		}
	}
	if from["peer"] != 1 || from["health"] != 0 {
		t.Errorf("numbers of sources by port: %v", from)
	}
}

// checkChosen checks what the values of everything choose.
func (m *manifests) checkChosen(t *testing.T) {
	t.Helper()
	pod := m.deployment.Spec.Template
	if m.deployment.Spec.Replicas != nil || *m.scaler.Spec.MinReplicas != 3 || m.scaler.Spec.ScaleTargetRef.Name != m.deployment.Name ||
		pod.Spec.Containers[0].Resources.Requests.Cpu().IsZero() {
		t.Errorf("replicas %v, autoscaling %+v", m.deployment.Spec.Replicas, m.scaler.Spec)
	}
	monitored := labels.SelectorFromSet(m.monitor.Spec.Selector.MatchLabels)
	if !monitored.Matches(labels.Set(m.headless.Labels)) || monitored.Matches(labels.Set(m.service.Labels)) ||
		m.monitor.Spec.Endpoints[0].Port != m.headless.Spec.Ports[0].Name || m.monitor.Labels["release"] != "prometheus" {
		t.Errorf("ServiceMonitor %+v, Service %+v", m.monitor, m.headless)
	}
	if !labels.SelectorFromSet(m.headless.Spec.Selector).Matches(labels.Set(pod.Labels)) || pod.Annotations["prometheus.io/scrape"] != "" {
		t.Errorf("the pods %v are scraped twice, or not at all", pod.Annotations)
	}
	file := m.configuration(t)
	if got := file.Listen[0].TrustedProxies; len(file.Listen) != 1 || len(got) != 1 || got[0] != "10.0.0.0/8" || file.Health.Address != ":9181" || *file.Health.Drain != 20e9 {
		t.Errorf("config does not replace and keep fields: %+v, %+v", file.Listen, file.Health)
	}
	if !strings.HasSuffix(pod.Spec.Containers[0].Image, "@sha256:"+strings.Repeat("0123456789abcdef", 4)) || pod.Spec.Volumes[1].Secret.SecretName != "tokens" ||
		m.service.Spec.Type != corev1.ServiceTypeLoadBalancer || m.disruption.Spec.MaxUnavailable.StrVal != "25%" {
		t.Errorf("%+v, %+v, %+v", pod.Spec, m.service.Spec, m.disruption.Spec)
	}
	if len(m.network.Spec.Ingress) != 2 || len(m.network.Spec.Ingress[0].From) != 1 {
		t.Errorf("%+v", m.network.Spec)
	}
}

// TestChartRefuses: values that are missing or unknown are refused, by name.
func TestChartRefuses(t *testing.T) {
	dir := filepath.Join(repository(t), "deploy/helm/isr")
	for values, want := range map[string]string{
		strings.Replace(required, "hosts: [example.com]", "", 1):  "hosts: the hosts of the site",
		strings.Replace(required, "table: pages, ", "", 1):        "store.table: the name of the table",
		strings.Replace(required, "http://site", "site", 1):       "/origin",
		required + "replica: 3\n":                                 "'replica'",
		required + "adminToken: x\n":                              "'adminToken'",
		required + "autoscaling: {maxReplicas: many}\n":           "/autoscaling/maxReplicas",
		required + "terminationGracePeriodSeconds: 20\n":          "/terminationGracePeriodSeconds",
		required + "networkPolicy: {visitors: 10.0.0.0/8}\n":      "/networkPolicy/visitors",
		required + "serviceMonitor: {enabled: \"true\"}\n":        "/serviceMonitor/enabled",
		required + "image: {repository: isr, pullPolicy: Wait}\n": "/image/pullPolicy",
	} {
		_, _, err := render(t, dir, values)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one that names %s", values, err, want)
		}
	}
}

// TestChartValues: the schema has the values of values.yaml, and the image is the one of the manifests.
func TestChartValues(t *testing.T) {
	dir := filepath.Join(repository(t), "deploy/helm/isr")
	var schema struct {
		Properties map[string]any `json:"properties"`
	}
	var chart struct {
		AppVersion string `json:"appVersion"`
	}
	values := make(map[string]any)
	for file, into := range map[string]any{"values.schema.json": &schema, "values.yaml": &values, "Chart.yaml": &chart} {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err == nil {
			err = yaml.Unmarshal(text, into)
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
	delete(schema.Properties, "global") // Helm's own
	if got, want := slices.Sorted(maps.Keys(values)), slices.Sorted(maps.Keys(schema.Properties)); !reflect.DeepEqual(got, want) {
		t.Errorf("values %v, and fields of the schema %v", got, want)
	}
	kustomization, err := os.ReadFile(filepath.Join(repository(t), "deploy/kubernetes/kustomization.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(kustomization), "newTag: "+chart.AppVersion+"\n") {
		t.Errorf("appVersion is %s, and kustomization.yaml has another tag", chart.AppVersion)
	}
}

// rendered returns the objects of the chart with values.
func rendered(t *testing.T, dir, values string) *manifests {
	t.Helper()
	objects, notes, err := render(t, dir, values)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(notes, "create secret generic") || strings.Contains(notes, "<no value>") {
		t.Errorf("NOTES.txt: %s", notes)
	}
	m := &manifests{configs: make(map[string]corev1.ConfigMap)}
	m.addAll(t, dir, []byte(objects))
	return m
}

// render returns the objects and the notes of an installation of the chart, for which Helm asks no cluster.
func render(t *testing.T, dir, values string) (objects, notes string, err error) {
	t.Helper()
	out, err := helm(t, values, "install", "site", dir, "--dry-run=client", "--output=json")
	if err != nil {
		return "", "", err
	}
	var release struct {
		Manifest string `json:"manifest"`
		Info     struct {
			Notes string `json:"notes"`
		} `json:"info"`
	}
	err = json.Unmarshal(out, &release)
	return release.Manifest, release.Info.Notes, err
}

// helm runs the program of Helm with values. Its library would compile all clients of Kubernetes.
func helm(t *testing.T, values string, args ...string) ([]byte, error) {
	t.Helper()
	program := os.Getenv("ISR_TEST_HELM")
	if program == "" {
		t.Skip("ISR_TEST_HELM is not set; ./test sets it to the helm that it installs, or name a helm of version 4")
	}
	cmd := exec.CommandContext(t.Context(), program, append(args, "--values=-")...)
	var problems bytes.Buffer
	cmd.Stdin, cmd.Stderr = strings.NewReader(values), &problems
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("helm %s: %w\n%s%s", strings.Join(args, " "), err, out, &problems)
	}
	return out, err
}
