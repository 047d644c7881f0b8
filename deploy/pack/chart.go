package main

import (
	"os"
	"path/filepath"
	"regexp"
)

var chartVersion = regexp.MustCompile(`(?m)^(version|appVersion): .*$`)

// chart makes the Helm chart, as helm package does, with the version of the release.
func (r *release) chart() error {
	folder := filepath.Join(r.sources, "deploy", "helm", "streamwright")
	t := tree{}
	if err := t.copyAll("streamwright/", folder, 0o644); err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(folder, "Chart.yaml"))
	if err != nil {
		return err
	}
	t.add("streamwright/Chart.yaml", chartVersion.ReplaceAll(text, []byte(`$1: "`+r.version+`"`)), 0o644)
	data, err := tarball(t, r.at)
	if err != nil {
		return err
	}
	return r.write("helm/streamwright-"+r.version+".tgz", data)
}
