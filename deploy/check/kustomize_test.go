package check

import (
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	strict "sigs.k8s.io/yaml"
)

// kustomize makes the manifests of the folder with a user's changes laid over it,
// as `kubectl apply -k` would: the namespace, the engine's image and its tag.
func TestKustomizeWithOverrides(t *testing.T) {
	base, err := filepath.Abs("../kubernetes")
	if err != nil {
		t.Fatal(err)
	}
	files := filesys.MakeFsOnDisk()
	overlay := t.TempDir()
	relative, err := filepath.Rel(overlay, base)
	if err != nil {
		t.Fatal(err)
	}
	const text = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nnamespace: elsewhere\nresources: [BASE]\n" +
		"images: [{name: registry.example.com/streamwright, newName: example.org/mine, newTag: 9.9.9}]\n"
	if err := files.WriteFile(filepath.Join(overlay, "kustomization.yaml"), []byte(strings.Replace(text, "BASE", relative, 1))); err != nil {
		t.Fatal(err)
	}
	made, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(files, overlay)
	if err != nil {
		t.Fatal(err)
	}
	images := map[string]bool{}
	for _, r := range made.Resources() {
		out, err := r.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		newObject := kinds[r.GetApiVersion()+"/"+r.GetKind()]
		if newObject == nil {
			t.Fatalf("%s is of no kind that the manifests have", r.CurId())
		}
		if err := strict.UnmarshalStrict(out, newObject()); err != nil {
			t.Errorf("%s: %v", r.CurId(), err)
		}
		if namespaced := r.GetKind() != "Namespace"; namespaced && r.GetNamespace() != "elsewhere" || !namespaced && r.GetName() != "elsewhere" {
			t.Errorf("%s is not in the namespace that was asked for", r.CurId())
		}
		var workload struct {
			Spec struct{ Template corev1.PodTemplateSpec }
		}
		if err := strict.Unmarshal(out, &workload); err != nil {
			t.Fatal(err)
		}
		for _, c := range workload.Spec.Template.Spec.Containers {
			images[c.Image] = true
		}
	}
	if want := "example.org/mine:9.9.9"; !images[want] || len(images) != 2 {
		t.Errorf("the images are %v; the engine's is to be %s", images, want)
	}
}
