// Package acceptance holds tests that try the assembled engine as its users
// would: through the client, plain NATS, and the command line, with real
// servers, workers and processes. What they ask for is the list of what the
// engine promises; how it keeps a promise is tested where it is kept.
package acceptance
