// Package docs embeds the pages of the documentation, which the engine serves
// at /docs. Screenshots are not part of it.
package docs

import "embed"

// Pages holds README.md, the index, and every other page by its path below docs.
//
//go:embed *.md */*.md
var Pages embed.FS
