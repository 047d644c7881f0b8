package check

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	strict "sigs.k8s.io/yaml"
)

// program finds a program, or skips the test; with STREAMWRIGHT_NO_SKIP set it
// fails.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		if os.Getenv("STREAMWRIGHT_NO_SKIP") != "" {
			t.Fatalf("%s is not on the machine, and STREAMWRIGHT_NO_SKIP is set", name)
		}
		t.Skipf("%s is not on the machine", name)
	}
	return path
}

// The Dockerfile is one that BuildKit reads, and its own checks find nothing in
// it. No image is built here: that is for image.sh, with buildah.
func TestDockerfile(t *testing.T) {
	text, err := os.ReadFile("../docker/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	file, err := parser.Parse(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	lint := linter.New(&linter.Config{Warn: func(rule, _, _, text string, at []parser.Range) { t.Errorf("%s: %s at %v", rule, text, at) }})
	stages, _, err := instructions.Parse(file.AST, lint)
	if err != nil {
		t.Fatal(err)
	}
	if len(stages) != 2 || stages[1].BaseName != "scratch" {
		t.Errorf("%d stages", len(stages))
	}
	asks := false
	for _, c := range stages[len(stages)-1].Commands {
		if h, ok := c.(*instructions.HealthCheckCommand); ok {
			asks = slices.Equal(h.Health.Test, []string{"CMD", "/streamwright", "health"})
		}
	}
	if !asks {
		t.Error("the image has no health check that runs without a shell")
	}
	for _, w := range file.Warnings {
		t.Errorf("%s", w.Short)
	}
}

// kinds are the objects that the manifests may hold.
var kinds = map[string]func() any{
	"v1/Namespace": func() any { return new(corev1.Namespace) }, "v1/ConfigMap": func() any { return new(corev1.ConfigMap) },
	"v1/Secret": func() any { return new(corev1.Secret) }, "v1/Service": func() any { return new(corev1.Service) },
	"apps/v1/StatefulSet": func() any { return new(appsv1.StatefulSet) }, "apps/v1/Deployment": func() any { return new(appsv1.Deployment) },
	"networking.k8s.io/v1/NetworkPolicy":            func() any { return new(networkingv1.NetworkPolicy) },
	"policy/v1/PodDisruptionBudget":                 func() any { return new(policyv1.PodDisruptionBudget) },
	"autoscaling/v2/HorizontalPodAutoscaler":        func() any { return new(autoscalingv2.HorizontalPodAutoscaler) },
	"kustomize.config.k8s.io/v1beta1/Kustomization": nil, // kustomize's own
}

// objects reads the manifests, each strictly as the kind that it says.
func objects(t *testing.T) (all []any) {
	t.Helper()
	files, err := filepath.Glob("../kubernetes/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, decode(t, name, text)...)
	}
	return all
}

// decode reads the documents of a file, each strictly as the kind that it says.
func decode(t *testing.T, name string, text []byte) (all []any) {
	t.Helper()
	docs := yaml.NewDocumentDecoder(io.NopCloser(bytes.NewReader(text)))
	for {
		doc := make([]byte, len(text)+1)
		n, err := docs.Read(doc)
		if errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(bytes.TrimSpace(doc[:n])) == 0 {
			continue
		}
		var meta metav1.TypeMeta
		if err := strict.Unmarshal(doc[:n], &meta); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		make, known := kinds[meta.APIVersion+"/"+meta.Kind]
		if !known {
			t.Errorf("%s: unknown kind %s of %s", name, meta.Kind, meta.APIVersion)
		}
		if make == nil {
			continue
		}
		obj := make()
		if err := strict.UnmarshalStrict(doc[:n], obj); err != nil {
			t.Errorf("%s: %v\n%s", name, err, doc[:n])
		}
		all = append(all, obj)
	}
}

// The manifests are what the API takes, and fit together: what is mounted,
// selected and referred to is there.
func TestKubernetes(t *testing.T) {
	config, secrets, ports, scaled := map[string]bool{}, map[string]string{}, map[string]bool{}, map[string]bool{}
	var engine *appsv1.StatefulSet
	all := objects(t)
	for _, o := range all {
		switch o := o.(type) {
		case *corev1.ConfigMap:
			config[o.Name] = true
		case *corev1.Secret:
			for k, v := range o.StringData {
				secrets["/secrets/"+k] = v
			}
		case *appsv1.StatefulSet:
			engine = o
		case *appsv1.Deployment:
			scaled[o.Name] = true
		}
	}
	if engine == nil {
		t.Fatal("no engine")
	}
	for _, p := range engine.Spec.Template.Spec.Containers[0].Ports {
		ports[p.Name] = true
	}
	for _, v := range engine.Spec.Template.Spec.Volumes {
		if v.ConfigMap != nil && !config[v.ConfigMap.Name] {
			t.Errorf("the volume %s has no ConfigMap", v.Name)
		}
	}
	for _, o := range all {
		switch o := o.(type) {
		case *corev1.Service:
			for k, v := range o.Spec.Selector {
				if engine.Spec.Template.Labels[k] != v {
					t.Errorf("the service selects %s=%s, which the engine is not", k, v)
				}
			}
			for _, p := range o.Spec.Ports {
				if !ports[p.TargetPort.StrVal] {
					t.Errorf("the service's port %s leads nowhere", p.Name)
				}
			}
		case *autoscalingv2.HorizontalPodAutoscaler:
			if !scaled[o.Spec.ScaleTargetRef.Name] {
				t.Errorf("nothing is named %s, to be scaled", o.Spec.ScaleTargetRef.Name)
			}
		case *corev1.ConfigMap:
			serves(t, o.Data["engine.toml"], secrets)
		}
	}
}

// serves starts an engine with a configuration, on other ports and in a folder
// of the test's, to see that it takes it.
func serves(t *testing.T, toml string, files map[string]string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, filepath.Base(name))
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		toml = strings.ReplaceAll(toml, name, path)
	}
	toml = strings.ReplaceAll(strings.ReplaceAll(toml, `"/data"`, `"`+filepath.Join(dir, "data")+`"`), "0.0.0.0:4222", "0.0.0.0:0")
	toml = strings.ReplaceAll(toml, "0.0.0.0:8484", "0.0.0.0:0")
	path := filepath.Join(dir, "engine.toml")
	if err := os.WriteFile(path, []byte(toml), 0o600); err != nil {
		t.Fatal(err)
	}
	ready(t, exec.Command(released(t), "serve", "--config", path), os.Interrupt)
}

// ready starts an engine, waits until it says that it is ready, and stops it by a signal.
func ready(t *testing.T, cmd *exec.Cmd, signal os.Signal) {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var errs bytes.Buffer
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Signal(signal)
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v: %v\n%s", cmd.Args, err, errs.String())
		}
	}()
	buf := make([]byte, 4096)
	n, err := out.Read(buf)
	if !strings.Contains(string(buf[:n]), "engine ready") {
		t.Errorf("it said %q, %v\n%s", buf[:n], err, errs.String())
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
}

// systemd reads the units and finds nothing wrong in them.
func TestSystemd(t *testing.T) {
	analyze := program(t, "systemd-analyze")
	dir := t.TempDir()
	units, _ := filepath.Glob("../systemd/*.service")
	nodes, _ := filepath.Glob("../cluster/systemd/*.service")
	if units = append(units, nodes...); len(units) != 3 {
		t.Fatal(units)
	}
	args := []string{"verify"}
	for _, u := range units {
		text, err := os.ReadFile(u)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, filepath.Base(u))
		// The program need not be where the unit has it.
		if err := os.WriteFile(path, bytes.ReplaceAll(text, []byte("ExecStart=streamwright"), []byte("ExecStart=/bin/true")), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, path)
	}
	out, err := exec.Command(analyze, args...).CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
}

// The scripts have nothing that shellcheck would complain of.
func TestScripts(t *testing.T) {
	check := program(t, "shellcheck")
	var scripts []string
	for _, pattern := range []string{"../*.sh", "../cluster/*.sh", "../debian/p*"} {
		found, _ := filepath.Glob(pattern)
		if len(found) == 0 {
			t.Fatal(pattern)
		}
		scripts = append(scripts, found...)
	}
	if out, err := exec.Command(check, append(scripts, "image.sh", "../../.ci/run")...).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
