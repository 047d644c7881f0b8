package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// nodeNames are what Node calls platforms: process.platform and process.arch.
var nodeNames = map[string]string{"linux": "linux", "darwin": "darwin", "windows": "win32", "amd64": "x64", "arm64": "arm64"}

// programPackage is the name of the npm package that has the programs of a platform.
func programPackage(p platform) string {
	return "@streamwright/engine-" + nodeNames[p.os] + "-" + nodeNames[p.arch]
}

// npmProgram makes the npm package of a platform, which npm installs there alone.
func (r *release) npmProgram(p platform) error {
	const top = "package/"
	t := tree{}
	for _, name := range p.programs() {
		if err := t.copy(top+"bin/"+name, r.program(p, name), 0o755); err != nil {
			return err
		}
	}
	manifest, err := manifest(map[string]any{
		"name": programPackage(p), "version": r.version, "license": "Apache-2.0",
		"description": fmt.Sprintf("The programs of the Streamwright work engine for %s: install streamwright-engine", p),
		"os":          []string{nodeNames[p.os]}, "cpu": []string{nodeNames[p.arch]}, "preferUnplugged": true,
	})
	if err != nil {
		return err
	}
	t.add(top+"package.json", manifest, 0o644)
	t.add(top+"THIRD-PARTY-LICENSES", []byte(r.notices), 0o644)
	if err := t.copy(top+"LICENSE", filepath.Join(r.sources, "LICENSE"), 0o644); err != nil {
		return err
	}
	data, err := tarball(t, r.at)
	if err != nil {
		return err
	}
	return r.write(fmt.Sprintf("npm/streamwright-engine-%s-%s-%s.tgz", nodeNames[p.os], nodeNames[p.arch], r.version), data)
}

// npmEngine makes the npm package streamwright-engine, which finds the one of its platform and runs the program.
func (r *release) npmEngine() error {
	folder := filepath.Join(r.sources, "deploy", "npm")
	text, err := os.ReadFile(filepath.Join(folder, "package.json"))
	if err != nil {
		return err
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		return fmt.Errorf("deploy/npm/package.json: %w", err)
	}
	fields["version"] = r.version
	needs := fields["optionalDependencies"].(map[string]any)
	for name := range needs {
		needs[name] = r.version
	}
	t := tree{}
	data, err := manifest(fields)
	if err != nil {
		return err
	}
	t.add("package/package.json", data, 0o644)
	for name, mode := range map[string]os.FileMode{"engine.js": 0o755, "README.md": 0o644} {
		if err := t.copy("package/"+name, filepath.Join(folder, name), mode); err != nil {
			return err
		}
	}
	if err := t.copy("package/LICENSE", filepath.Join(r.sources, "LICENSE"), 0o644); err != nil {
		return err
	}
	packed, err := tarball(t, r.at)
	if err != nil {
		return err
	}
	return r.write("npm/streamwright-engine-"+r.version+".tgz", packed)
}

// manifest is a package.json.
func manifest(fields map[string]any) ([]byte, error) {
	data, err := json.MarshalIndent(fields, "", "  ")
	return append(data, '\n'), err
}
