package config

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/streamwright/streamwright/events"
)

// digestLen is the length of [Config.Digest] in characters.
const digestLen = 12

// agreed holds the settings that must agree on all nodes of one log: by them an
// owner decides, or records what it decides. Addresses, folders, users, quotas and
// commands are each node's own.
type agreed struct {
	Durability    Durability            `json:",omitzero"`
	MaxClockJump  time.Duration         `json:",omitzero"`
	NoDedupBucket bool                  `json:",omitzero"`
	MaxRunning    int                   `json:",omitzero"`
	LogMaxAge     time.Duration         `json:",omitzero"`
	LogMaxBytes   int64                 `json:",omitzero"`
	OutputBytes   int64                 `json:",omitzero"`
	OutputItem    int                   `json:",omitzero"`
	BlobMaxBytes  int64                 `json:",omitzero"`
	CutEvents     int                   `json:",omitzero"`
	Replicas      int                   `json:",omitzero"`
	Placement     []string              `json:",omitzero"`
	Limits        events.Limits         `json:",omitzero"`
	Workers       Workers               `json:",omitzero"`
	DedupHook     DedupHook             `json:",omitzero"`
	Defaults      named                 `json:",omitzero"`
	Types         map[events.Type]named `json:",omitzero"`
	Schedules     []events.Schedule     `json:",omitzero"`

	Namespaces []events.NamespaceInfo `json:",omitempty"`
}

// named holds the settings of types that a table of the file names.
type named struct {
	Names    []string            `json:",omitzero"`
	Settings events.TypeSettings `json:",omitzero"`
}

func namedBy(p Patch) named { return named{p.Named(), p.Apply(events.TypeSettings{})} }

// Digest returns a text that is the same for configurations whose nodes would decide
// alike: 12 hexadecimal digits.
func (c Config) Digest() string {
	c = c.WithDefaults()
	a := agreed{
		Durability: c.Server.Durability, MaxClockJump: c.Server.MaxClockJump, NoDedupBucket: c.Server.NoDedupBucket,
		MaxRunning: c.Limits.MaxRunning, LogMaxAge: c.Limits.LogMaxAge, LogMaxBytes: c.Limits.LogMaxBytes, OutputBytes: c.Limits.OutputMaxBytes, OutputItem: c.Limits.OutputItem, BlobMaxBytes: c.Limits.BlobMaxBytes,
		CutEvents: c.Retention.CutEvents, Replicas: c.Cluster.Replicas, Placement: c.Cluster.Placement, Limits: c.EngineLimits(),
		Workers: c.Workers, DedupHook: c.DedupHook, Defaults: namedBy(c.Defaults), Types: map[events.Type]named{}, Schedules: c.FileSchedules(), Namespaces: c.FileNamespaces(),
	}
	for t, of := range c.Types {
		if len(of.Patch) > 0 {
			a.Types[t] = namedBy(of.Patch)
		}
	}
	data, err := json.Marshal(a)
	if err != nil {
		return "" // a configuration that is not valid
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])[:digestLen]
}
