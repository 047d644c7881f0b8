// Package httpauth tells who makes an HTTP request: by a bearer token, by a
// client certificate, or, where nobody has to say who he is, everyone whose
// request does not come from somebody else's web page.
//
// It knows the roles of package access and nothing of the engine. An
// [Authenticator] may be used by any goroutine; [Authenticator.Reload] puts a
// changed tokens file into force between two requests.
package httpauth
