package check

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	strict "sigs.k8s.io/yaml"
)

// The overlay makes the engine three nodes, which keep what the base says beside.
func TestKustomizeCluster(t *testing.T) {
	made, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), "../cluster/kubernetes")
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, r := range made.Resources() {
		if r.GetKind() != "StatefulSet" {
			continue
		}
		out, err := r.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		var set appsv1.StatefulSet
		if err := strict.UnmarshalStrict(out, &set); err != nil {
			t.Fatal(err)
		}
		found = true
		c := set.Spec.Template.Spec.Containers[0]
		if *set.Spec.Replicas != 3 || set.Spec.ServiceName != "streamwright-nodes" || set.Spec.PodManagementPolicy != appsv1.ParallelPodManagement {
			t.Errorf("the set is %+v", set.Spec)
		}
		if c.Lifecycle == nil || !slices.Contains(c.Lifecycle.PreStop.Exec.Command, "--may-stop") || *set.Spec.Template.Spec.TerminationGracePeriodSeconds != 15*60+60 {
			t.Errorf("before a stop: %+v", c.Lifecycle)
		}
		if !slices.Contains(c.Args, "$(POD_NAME)") || len(c.Ports) != 3 || len(c.VolumeMounts) != 5 || len(c.Env) != 2 || len(set.Spec.Template.Spec.Volumes) != 4 {
			t.Errorf("the container is %+v", c)
		}
	}
	if !found {
		t.Error("no StatefulSet")
	}
}
