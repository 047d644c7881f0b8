// Package config reads engine.toml, the engine's configuration file.
//
// It owns the names, bounds and defaults of the settings in that file. Reading
// is strict: an unknown key, a value of the wrong kind or one out of bounds is
// an [*Error] that names the file, the line and the key, and [Load] reports
// all of them at once, in the order of the file. Only a syntax error stands
// alone, since nothing after it can be read.
//
// Each setting is one row of a table (settings.go; for types, patch.go): its key,
// its kind and bounds, its default, and its documentation. Reading, checking,
// defaults, comparing two files, docs/reference/CONFIG.md and the keys of "engine types set"
// all follow from the row. validate.go holds only the rules that concern several
// settings at once.
//
// The file owns the settings of a type that it sets, and no others. A [Patch] holds
// just these: [Patch.Apply] lays them over whatever the log says, and
// [Patch.Conflicts] lists those that a requested change would undo.
//
// The package does no I/O beyond reading the one file, and a Config that has
// been validated is never written again.
package config
