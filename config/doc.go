// Package config reads engine.toml, the engine's configuration file.
//
// It owns the names, bounds and defaults of the settings in that file. Reading
// is strict: an unknown key, a value of the wrong kind or one out of bounds is
// an [*Error] that names the file, the line and the key, and [Load] reports
// all of them at once, in the order of the file. Only a syntax error stands
// alone, since nothing after it can be read.
//
// The settings are described once, as data (see the fields methods): the
// reader, the bounds' messages and the table in docs/reference/CONFIG.md come from the
// same place, so they can't disagree.
//
// For types the file owns just what it names. A [Patch] holds those settings
// and nothing else: [Patch.Apply] lays them over whatever the log says, and
// [Patch.Conflicts] tells which of a requested change the file forbids.
//
// The package does no I/O beyond reading the one file, and a Config that has
// been validated is never written again.
package config
