package playground

import (
	"io/fs"
	"regexp"
	"strings"
	"testing"

	"github.com/streamwright/streamwright/docs"
)

var onPage = regexp.MustCompile(`(?s)<!-- playground\n(.*?)\n-->`)

// Of the commands with which the playgrounds of the pages begin, none is refused.
func TestScriptsOfThePages(t *testing.T) {
	found := 0
	err := fs.WalkDir(docs.Pages, ".", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(docs.Pages, file)
		for _, m := range onPage.FindAllStringSubmatch(string(text), -1) {
			found++
			s := begin(t)
			for line := range strings.Lines(m[1]) {
				if r := s.Do(line); r.Refused != "" {
					t.Errorf("%s: %s: %s", file, strings.TrimSpace(line), r.Refused)
				}
			}
		}
		return err
	})
	if err != nil || found == 0 {
		t.Fatal(found, err)
	}
}
