package embedded

import (
	"github.com/streamwright/streamwright/api/page"
	"github.com/streamwright/streamwright/api/rest"
)

// mountPage serves the web page. Its files hold nothing, so they need no role;
// what it shows comes from the API, which asks for one.
func mountPage(s *rest.Server) {
	h := page.Handler()
	s.Mount("GET /{$}", 0, h)
	s.Mount("GET /assets/", 0, h)
}
