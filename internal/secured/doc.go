// Package secured tests the programs, the client and the worker runtime on NATS
// servers that are not the engine's own and let nobody in without a login:
// passwords, nkeys, credentials, client certificates, contexts of the nats
// program, and a JetStream domain behind a leaf node; with no more permissions
// than `engine permissions` prints. It has no code of its own.
package secured
