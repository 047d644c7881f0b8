// Package schemas renders the protocol of package wire, and the payloads of
// package events, as JSON Schema (draft 2020-12) and as TypeScript: the folder
// schemas/ and clients/node/src/wire.gen.ts are what it renders, and its tests
// fail when they are out of date. Descriptions are the doc comments of the Go
// types.
//
// A request's schema allows no other fields, for the engine refuses what it does
// not know; replies and events are open, for their readers must ignore what
// they do not know.
package schemas
