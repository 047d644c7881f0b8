package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// bom writes the bill of materials of a platform's programs, in CycloneDX: what the compiler has recorded in them.
// It has no serial number and no time, which would differ from one build to the next.
func (r *release) bom(p platform) error {
	list := cdx.NewBOM()
	list.Metadata = &cdx.Metadata{Component: &cdx.Component{
		Type: cdx.ComponentTypeApplication, BOMRef: "release", Name: "Streamwright", Version: r.version,
		Licenses: &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}},
	}}
	libraries := map[string]cdx.Component{}
	var programs []cdx.Component
	var edges []cdx.Dependency
	for _, name := range p.programs() {
		data, err := os.ReadFile(r.program(p, name))
		if err != nil {
			return err
		}
		info, err := buildinfo.Read(bytes.NewReader(data))
		if err != nil {
			return err
		}
		sum := sha256.Sum256(data)
		program := cdx.Component{
			Type: cdx.ComponentTypeApplication, BOMRef: name, Name: name, Version: r.version,
			Hashes: &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}},
		}
		programs = append(programs, program)
		var needs []string
		for _, m := range modulesOf(info) {
			c, err := r.library(m)
			if err != nil {
				return err
			}
			libraries[c.BOMRef] = c
			needs = append(needs, c.BOMRef)
		}
		slices.Sort(needs)
		edges = append(edges, cdx.Dependency{Ref: name, Dependencies: &needs})
	}
	for _, ref := range slices.Sorted(maps.Keys(libraries)) {
		programs = append(programs, libraries[ref])
	}
	names := p.programs()
	edges = append(edges, cdx.Dependency{Ref: list.Metadata.Component.BOMRef, Dependencies: &names})
	list.Components, list.Dependencies = &programs, &edges
	var b bytes.Buffer
	if err := cdx.NewBOMEncoder(&b, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(list, cdx.SpecVersion1_6); err != nil {
		return err
	}
	return r.write(fmt.Sprintf("streamwright-%s-%s.cdx.json", r.version, p), b.Bytes())
}

// modulesOf are the modules that a program is made of, the standard library, as the module std, among them.
func modulesOf(info *debug.BuildInfo) []*debug.Module {
	all := []*debug.Module{{Path: std, Version: strings.TrimPrefix(strings.Fields(info.GoVersion)[0], "go")}}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		all = append(all, m)
	}
	return all
}

const std = "std" // the standard library

// nameOf names a module in what is known of it: by path and version, or as std.
func nameOf(m *debug.Module) string {
	if m.Path == std {
		return std
	}
	return m.Path + "@" + m.Version
}

// library describes a module.
func (r *release) library(m *debug.Module) (cdx.Component, error) {
	ref := "pkg:golang/" + m.Path + "@" + strings.ReplaceAll(m.Version, "+", "%2B") + "?type=module"
	c := cdx.Component{Type: cdx.ComponentTypeLibrary, BOMRef: ref, PackageURL: ref, Name: m.Path, Version: m.Version}
	if sum, ok := strings.CutPrefix(m.Sum, "h1:"); ok {
		raw, err := base64.StdEncoding.DecodeString(sum)
		if err != nil {
			return c, fmt.Errorf("checksum of %s: %w", m.Path, err)
		}
		c.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(raw)}}
	}
	c.Licenses = &cdx.Licenses{}
	for _, id := range r.licenses[nameOf(m)] {
		*c.Licenses = append(*c.Licenses, cdx.LicenseChoice{License: &cdx.License{ID: id}})
	}
	return c, nil
}

// programFiles are the programs of all platforms.
func (r *release) programFiles(platforms []platform) (all []string) {
	for _, p := range platforms {
		for _, name := range p.programs() {
			all = append(all, r.program(p, name))
		}
	}
	return all
}
