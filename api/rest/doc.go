// Package rest is the engine's HTTP server: the JSON API with its OpenAPI
// description, the live feed of events, and whatever other handlers are mounted
// on it (the web page, health, metrics).
//
// It decides nothing. Each request becomes one to the engine's service
// ([Caller]), with the JSON that the same request has over NATS, so that the
// two say the same in the same words; errors come back as RFC 9457 problem
// documents with the engine's codes.
//
// Each operation and each mounted handler names its roles ([access.Roles]), any one of
// which suffices; the [Authenticator] identifies the caller.
package rest
