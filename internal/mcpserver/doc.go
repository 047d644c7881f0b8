// Package mcpserver lets a language model see an engine, and where it is allowed use it, by
// the Model Context Protocol (https://modelcontextprotocol.io). It is `engine mcp`.
//
// The tools ask by the Go client, so they may do what its login may. Without [Options.Allow]
// they only read. Each call takes at most [MaxCall], and answers with at most [MaxReply]
// bytes of JSON, in which long texts are cut and lists come in pages.
//
// What can't be undone, or is done to many items, takes two calls: the first changes nothing
// and says what would be done, with a token; the second, with the same arguments and the
// token in confirm, does it.
package mcpserver
