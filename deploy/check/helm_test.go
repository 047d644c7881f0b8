package check

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
)

const chartFolder = "../helm/streamwright"

// helm lint finds nothing in the chart, by itself or with values of many kinds.
func TestHelmLint(t *testing.T) {
	for name, text := range values {
		for _, m := range lint.AllWithKubeVersion(chartFolder, parse(t, text), "apps", nil).Messages {
			if m.Severity > support.InfoSev {
				t.Errorf("%s: %s", name, m.Error())
			}
		}
	}
}

// values are those that people may have.
var values = map[string]string{
	"none": "",
	"all": `
nodes: 5
image: {repository: example.org/streamwright, tag: 1.2.3, pullPolicy: Always}
imagePullSecrets: [{name: pull}]
https: true
cluster: {name: staging, secret: nodes, settings: "replicas = 3\n"}
storage: {size: 1Ti, className: fast, accessMode: ReadWriteOnce}
antiAffinity: preferred
topologySpreadConstraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: ScheduleAnyway}]
nodeSelector: {disk: ssd}
tolerations: [{key: dedicated, operator: Exists}]
priorityClassName: high
serviceAccount: engine
podLabels: {team: queues}
podAnnotations: {note: x}
extraEnv: [{name: OTEL_EXPORTER_OTLP_ENDPOINT, value: "http://collector:4318"}]
extraVolumes: [{name: more, emptyDir: {}}]
extraVolumeMounts: [{name: more, mountPath: /more}]
`,
	"one node": "nodes: 1\nsecret: \"\"\nconfig: |\n  [http]\n  allow_open = true\n\n  [nats]\n  allow_open = true\n",
	"little":   "podDisruptionBudget: {enabled: false}\nnetworkPolicy: {enabled: false}\nantiAffinity: none\ngoMemoryLimit: \"\"\n",
}

func parse(t *testing.T, text string) map[string]any {
	t.Helper()
	v, err := chartutil.ReadValues([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// rendered are the objects of a chart.
type rendered struct {
	set      *appsv1.StatefulSet
	config   *corev1.ConfigMap
	services map[string]*corev1.Service
	budget   *policyv1.PodDisruptionBudget
	network  *networkingv1.NetworkPolicy
	notes    string
}

// render makes what helm template does, and reads each object strictly as its kind.
func render(t *testing.T, folder, release, text string) (r rendered) {
	t.Helper()
	chart, err := loader.Load(folder)
	if err != nil {
		t.Fatal(err)
	}
	v, err := chartutil.ToRenderValues(chart, parse(t, text), chartutil.ReleaseOptions{Name: release, Namespace: "apps", IsInstall: true}, chartutil.DefaultCapabilities)
	if err != nil {
		t.Fatal(err)
	}
	files, err := engine.Render(chart, v)
	if err != nil {
		t.Fatal(err)
	}
	r.services = map[string]*corev1.Service{}
	for name, text := range files {
		if strings.HasSuffix(name, "NOTES.txt") {
			r.notes = text
			continue
		}
		for _, o := range decode(t, name, []byte(text)) {
			switch o := o.(type) {
			case *appsv1.StatefulSet:
				r.set = o
			case *corev1.ConfigMap:
				r.config = o
			case *corev1.Service:
				r.services[o.Name] = o
			case *policyv1.PodDisruptionBudget:
				r.budget = o
			case *networkingv1.NetworkPolicy:
				r.network = o
			default:
				t.Errorf("%s has a %T", name, o)
			}
		}
	}
	return r
}

// With whatever values, the objects are what the API takes, and fit together.
func TestHelmTemplate(t *testing.T) {
	for name, text := range values {
		t.Run(name, func(t *testing.T) {
			r := render(t, chartFolder, "queues", text)
			nodes := int(*r.set.Spec.Replicas)
			pod := r.set.Spec.Template
			c := pod.Spec.Containers[0]
			for k, v := range r.set.Spec.Selector.MatchLabels {
				if pod.Labels[k] != v {
					t.Errorf("the pods lack the label %s=%s", k, v)
				}
			}
			ports := map[string]bool{}
			for _, p := range c.Ports {
				ports[p.Name] = true
			}
			for _, s := range r.services {
				for k, v := range s.Spec.Selector {
					if pod.Labels[k] != v {
						t.Errorf("%s selects %s=%s, which the pods are not", s.Name, k, v)
					}
				}
				for _, p := range s.Spec.Ports {
					if !ports[p.TargetPort.StrVal] {
						t.Errorf("the port %s of %s leads nowhere", p.Name, s.Name)
					}
				}
			}
			if r.services["queues-streamwright"] == nil || r.services[r.set.Spec.ServiceName] == nil {
				t.Errorf("the services are %v", r.services)
			}
			volumes := []string{r.set.Spec.VolumeClaimTemplates[0].Name}
			for _, v := range pod.Spec.Volumes {
				volumes = append(volumes, v.Name)
				if v.ConfigMap != nil && v.ConfigMap.Name != r.config.Name {
					t.Errorf("the volume %s has no ConfigMap", v.Name)
				}
			}
			for _, m := range c.VolumeMounts {
				if !slices.Contains(volumes, m.Name) {
					t.Errorf("nothing is mounted at %s", m.MountPath)
				}
			}
			toml := r.config.Data["engine.toml"]
			many := nodes > 1
			if strings.Contains(toml, "[cluster]") != many || (c.Lifecycle != nil) != many || slices.Contains(c.Args, "--node") != many || strings.Contains(r.notes, "certificates.sh") != many {
				t.Errorf("%d nodes have %v and\n%s\n%s", nodes, c.Args, toml, r.notes)
			}
			for i := range nodes {
				if peer := fmt.Sprintf(`"queues-streamwright-%d.queues-streamwright-nodes:6222"`, i); many && !strings.Contains(toml, peer) {
					t.Errorf("the peers lack %s:\n%s", peer, toml)
				}
			}
			if name == "none" && (nodes != 3 || r.budget == nil || r.budget.Spec.MaxUnavailable.IntVal != 1 || r.network == nil || pod.Spec.Affinity == nil || c.ReadinessProbe == nil) {
				t.Errorf("the defaults are %+v", r)
			}
			if many {
				// The stop begins when nothing is at risk, or the time is up, and has a minute then.
				stop := c.Lifecycle.PreStop.Exec.Command
				if !slices.Contains(stop, "--may-stop") || stop[len(stop)-1] != fmt.Sprintf("%ds", *pod.Spec.TerminationGracePeriodSeconds-60) {
					t.Errorf("before a stop: %v, of %d s", stop, *pod.Spec.TerminationGracePeriodSeconds)
				}
			}
		})
	}
}

// The schema refuses what would not work.
func TestHelmSchema(t *testing.T) {
	chart, err := loader.Load(chartFolder)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"nodes: 2", "replicas: 3", "podDisruptionBudget: {maxUnavailable: 2}", "server: |\n  [http]\n", "upgrade: {waitSeconds: 0}"} {
		if _, err := chartutil.ToRenderValues(chart, parse(t, text), chartutil.ReleaseOptions{Name: "x"}, chartutil.DefaultCapabilities); err == nil {
			t.Errorf("%s is taken", text)
		}
	}
}

// The chart of the release has the version of its engine.
func TestHelmPackage(t *testing.T) {
	released(t)
	r := render(t, filepath.Join(release.files, "helm", "streamwright-"+version+".tgz"), "streamwright", "")
	if image := r.set.Spec.Template.Spec.Containers[0].Image; image != "registry.example.com/streamwright:"+version || r.set.Name != "streamwright" {
		t.Errorf("%s has the image %s", r.set.Name, image)
	}
}

// Three nodes are started as the chart says, on other addresses. While one is away, the command that Kubernetes runs
// before it stops another waits; once the node is back and has everything, it ends.
func TestHelmNodes(t *testing.T) {
	t.Parallel()
	program(t, "openssl")
	engine, dir := released(t), t.TempDir()
	r := render(t, chartFolder, "streamwright", "config: |\n  [http]\n  allow_open = true\n\n  [nats]\n  allow_open = true\n")
	script, err := filepath.Abs("../cluster/certificates.sh")
	if err != nil {
		t.Fatal(err)
	}
	said(t, dir, script, "127.0.0.1")
	c := r.set.Spec.Template.Spec.Containers[0]
	var nodes, https [3]string
	toml := strings.ReplaceAll(r.config.Data["engine.toml"], `"/cluster/`, `"`+dir+`/`)
	for i := range nodes {
		nodes[i], https[i] = freeAddress(t), freeAddress(t)
		toml = strings.ReplaceAll(toml, fmt.Sprintf("streamwright-%d.streamwright-nodes:6222", i), nodes[i])
	}
	start := func(i int) *node {
		config := filepath.Join(dir, fmt.Sprintf("%d.toml", i))
		own := strings.NewReplacer("0.0.0.0:6222", nodes[i], "0.0.0.0:4222", "127.0.0.1:0", "0.0.0.0:8484", https[i], `"/data"`, fmt.Sprintf("%q", filepath.Join(dir, fmt.Sprint("data", i)))).Replace(toml)
		if err := os.WriteFile(config, []byte(own), 0o600); err != nil {
			t.Fatal(err)
		}
		var args []string
		for _, a := range c.Args {
			args = append(args, strings.NewReplacer("/config/engine.toml", config, "$(POD_NAME)", fmt.Sprint("streamwright-", i)).Replace(a))
		}
		return startNode(t, exec.Command(engine, args...))
	}
	var running [3]*node
	for i := range running {
		running[i] = start(i)
	}
	for _, n := range running {
		n.says(t, "engine ready")
	}
	before := func(i int) *node {
		args := slices.Clone(c.Lifecycle.PreStop.Exec.Command[1:])
		args[slices.Index(args, "http://127.0.0.1:8484")] = "http://" + https[i]
		return startNode(t, exec.Command(engine, args...))
	}
	if err := before(2).ends(); err != nil {
		t.Errorf("before the first is stopped: %v", err)
	}
	running[2].stop()
	if err := running[2].ends(); err != nil {
		t.Errorf("the first: %v", err)
	}
	next := before(1)
	next.says(t, "at risk: streamwright-2 does not answer")
	running[2] = start(2)
	running[2].says(t, "engine ready")
	if err := next.ends(); err != nil {
		t.Errorf("before the next is stopped: %v", err)
	}
	for _, n := range running {
		n.stop()
	}
	for _, n := range running {
		_ = n.ends()
	}
}

// node is a process, what it says, and its end.
type node struct {
	cmd   *exec.Cmd
	lines chan string
	all   strings.Builder
	done  chan error
}

// startNode starts a process, which ends with the test.
func startNode(t *testing.T, cmd *exec.Cmd) *node {
	t.Helper()
	n := &node{cmd: cmd, lines: make(chan string, 1000), done: make(chan error, 1)}
	r, w := io.Pipe()
	cmd.Stdout, cmd.Stderr = w, w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		n.done <- cmd.Wait()
		w.Close()
	}()
	go func() {
		defer close(n.lines)
		buf := make([]byte, 64<<10)
		for {
			k, err := r.Read(buf)
			select {
			case n.lines <- string(buf[:k]):
			default: // nobody reads so much
			}
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return n
}

// says waits until the process has said something.
func (n *node) says(t *testing.T, text string) {
	t.Helper()
	for part := range n.lines {
		n.all.WriteString(part)
		if strings.Contains(n.all.String(), text) {
			return
		}
	}
	t.Fatalf("%v ended, and never said %q:\n%s", n.cmd.Args, text, n.all.String())
}

func (n *node) stop() { _ = n.cmd.Process.Signal(os.Interrupt) }

func (n *node) ends() error {
	err := <-n.done
	n.done <- err
	var out bytes.Buffer
	for part := range n.lines {
		out.WriteString(part)
	}
	if err != nil {
		err = errors.Join(err, errors.New(out.String()))
	}
	return err
}

// freeAddress is an address of this machine on which nobody listens. Its port is below those that the kernel gives
// by itself, so that it stays free while what listens there is started again.
func freeAddress(t *testing.T) string {
	t.Helper()
	for range 1000 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 20_000+rand.IntN(12_000)))
		if err != nil {
			continue
		}
		defer l.Close()
		return l.Addr().String()
	}
	t.Fatal("no port from 20000 to 32000 is free")
	return ""
}
