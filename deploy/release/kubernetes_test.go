package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/facetheory/isr/internal/config"
)

// TestKubernetes reads the manifests of deploy/kubernetes with Kubernetes' own types, strictly, and
// checks what must fit together. It does not check the values of fields, as a server would.
func TestKubernetes(t *testing.T) {
	m := readManifests(t)
	m.check(t)
	if *m.deployment.Spec.Replicas < 2 {
		t.Error("a fleet has two servers at least")
	}
}

// check checks that times, ports, labels and permissions fit together, with the configuration of the servers.
func (m *manifests) check(t *testing.T) {
	t.Helper()
	file := m.configuration(t)
	pod := m.deployment.Spec.Template.Spec
	container := pod.Containers[0]

	// The renders have no timeout in the file: 30s, and 5s for the response.
	const render, end = 35 * time.Second, 10 * time.Second
	if got, want := time.Duration(*pod.TerminationGracePeriodSeconds)*time.Second, *file.Health.Drain+render+end; got < want {
		t.Errorf("terminationGracePeriodSeconds is %s; the shutdown takes up to %s", got, want)
	}
	// The pod is out of the Service before the drain ends.
	ready := container.ReadinessProbe
	if ready.FailureThreshold < 2 {
		t.Error("one failure of the readiness probe takes a server out of the Service")
	}
	if out := time.Duration(ready.PeriodSeconds*ready.FailureThreshold+ready.TimeoutSeconds) * time.Second; *file.Health.Drain < out {
		t.Errorf("the drain is %s, and the readiness probe fails after up to %s", *file.Health.Drain, out)
	}
	ports := make(map[string]string)
	for _, port := range container.Ports {
		ports[port.Name] = fmt.Sprintf(":%d", port.ContainerPort)
	}
	for name, address := range map[string]string{"http": file.Listen[0].Address, "health": file.Health.Address, "metrics": file.Metrics.Address, "peer": file.Peer.Address} {
		if !strings.HasSuffix(address, ports[name]) || ports[name] == "" {
			t.Errorf("port %s is %s, and isr.yaml has %s", name, ports[name], address)
		}
	}
	for probe, path := range map[*corev1.Probe]string{container.StartupProbe: "/readyz", ready: "/readyz", container.LivenessProbe: "/livez"} {
		if probe.HTTPGet.Path != path || probe.HTTPGet.Port.StrVal != "health" {
			t.Errorf("probe %+v, want %s at the port health", probe.HTTPGet, path)
		}
	}
	m.checkLabels(t)
	for _, pod := range []corev1.PodSpec{pod, m.jobs.Spec.JobTemplate.Spec.Template.Spec} {
		restricted(t, pod)
	}
}

// checkLabels checks that everything selects the servers, and nothing else.
func (m *manifests) checkLabels(t *testing.T) {
	t.Helper()
	if m.service.Spec.Ports[0].TargetPort.StrVal != "http" || len(m.service.Spec.Ports) != 1 {
		t.Errorf("the Service has %+v", m.service.Spec.Ports)
	}
	servers := labels.Set(m.deployment.Spec.Template.Labels)
	jobs := labels.Set(m.jobs.Spec.JobTemplate.Spec.Template.Labels)
	for what, selector := range map[string]map[string]string{
		"Deployment": m.deployment.Spec.Selector.MatchLabels, "Service": m.service.Spec.Selector, "PodDisruptionBudget": m.disruption.Spec.Selector.MatchLabels,
	} {
		if chosen := labels.SelectorFromSet(selector); chosen.Empty() || !chosen.Matches(servers) || chosen.Matches(jobs) {
			t.Errorf("the %s selects %v; servers have %v, and garbage collection has %v", what, selector, servers, jobs)
		}
	}
}

// restricted checks the rules of the Pod Security Standard "restricted", and a read-only root.
func restricted(t *testing.T, pod corev1.PodSpec) {
	t.Helper()
	context, container := pod.SecurityContext, pod.Containers[0].SecurityContext
	if !*context.RunAsNonRoot || *context.RunAsUser != imageUser || context.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault ||
		*container.AllowPrivilegeEscalation || !*container.ReadOnlyRootFilesystem || len(container.Capabilities.Drop) != 1 || container.Capabilities.Drop[0] != "ALL" {
		t.Errorf("%s may do more than it needs: %+v, %+v", pod.Containers[0].Name, context, container)
	}
}

// manifests are the objects of deploy/kubernetes.
type manifests struct {
	account    corev1.ServiceAccount
	configs    map[string]corev1.ConfigMap
	deployment appsv1.Deployment
	service    corev1.Service
	disruption policyv1.PodDisruptionBudget
	jobs       batchv1.CronJob

	// Of the chart alone.
	scaler   autoscalingv2.HorizontalPodAutoscaler
	network  networkingv1.NetworkPolicy
	monitor  monitoringv1.ServiceMonitor
	headless corev1.Service // that the monitor selects
}

// readManifests reads all objects of the files that kustomization.yaml names.
func readManifests(t *testing.T) manifests {
	t.Helper()
	m := manifests{configs: make(map[string]corev1.ConfigMap)}
	dir := filepath.Join(repository(t), "deploy/kubernetes")
	list, err := os.ReadFile(filepath.Join(dir, "kustomization.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil || len(found) < 6 {
		t.Fatalf("found %q: %v", found, err)
	}
	for _, path := range found {
		if filepath.Base(path) == "kustomization.yaml" {
			continue
		}
		if !bytes.Contains(list, []byte("  - "+filepath.Base(path)+"\n")) {
			t.Errorf("kustomization.yaml lacks %s", filepath.Base(path))
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		m.addAll(t, path, text)
	}
	return m
}

// addAll adds the objects of a file.
func (m *manifests) addAll(t *testing.T, path string, text []byte) {
	t.Helper()
	for documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text))); ; {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return
		}
		if err == nil && len(bytes.TrimSpace(document)) > 0 {
			err = m.add(document)
		}
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
}

// add decodes an object, and refuses fields that its kind does not have.
func (m *manifests) add(document []byte) error {
	scheme := runtime.NewScheme()
	err := errors.Join(corev1.AddToScheme(scheme), appsv1.AddToScheme(scheme), batchv1.AddToScheme(scheme), policyv1.AddToScheme(scheme),
		autoscalingv2.AddToScheme(scheme), networkingv1.AddToScheme(scheme), monitoringv1.AddToScheme(scheme))
	if err != nil {
		return err
	}
	decoder := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{Yaml: true, Strict: true})
	object, _, err := decoder.Decode(document, nil, nil)
	if err != nil {
		return err
	}
	switch object := object.(type) {
	case *corev1.ServiceAccount:
		m.account = *object
	case *corev1.ConfigMap:
		m.configs[object.Name] = *object
	case *appsv1.Deployment:
		m.deployment = *object
	case *corev1.Service:
		if object.Spec.ClusterIP == corev1.ClusterIPNone {
			m.headless = *object
		} else {
			m.service = *object
		}
	case *policyv1.PodDisruptionBudget:
		m.disruption = *object
	case *batchv1.CronJob:
		m.jobs = *object
	case *autoscalingv2.HorizontalPodAutoscaler:
		m.scaler = *object
	case *networkingv1.NetworkPolicy:
		m.network = *object
	case *monitoringv1.ServiceMonitor:
		m.monitor = *object
	default:
		return errors.New("unexpected kind " + object.GetObjectKind().GroupVersionKind().Kind)
	}
	return nil
}

// configuration parses the isr.yaml of the ConfigMap, with the variables of the Deployment.
func (m *manifests) configuration(t *testing.T) *config.File {
	t.Helper()
	lookup := func(name string) (string, bool) {
		if value, ok := m.configs["isr-store"].Data[name]; ok {
			return value, true
		}
		for _, variable := range m.deployment.Spec.Template.Spec.Containers[0].Env {
			if variable.Name == name && variable.ValueFrom.FieldRef.FieldPath == "status.podIP" {
				return "10.1.2.3", true
			}
		}
		return "", false
	}
	volumes := m.deployment.Spec.Template.Spec.Volumes
	file, err := config.Parse("isr.yaml", []byte(m.configs[volumes[0].ConfigMap.Name].Data["isr.yaml"]), lookup)
	if err != nil {
		t.Fatal(err)
	}
	return file
}
