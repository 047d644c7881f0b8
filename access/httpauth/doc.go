// Package httpauth identifies the user of an HTTP request: by a bearer token or a
// client certificate. Where no credentials are needed, it admits every request that
// does not come from another site's web page.
//
// It knows the roles of package access and nothing about the engine. An
// [Authenticator] may be used by any goroutine; [Authenticator.Reload] puts a
// changed tokens file into force between two requests.
package httpauth
