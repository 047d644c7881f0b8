// Package connect says how a program reaches a NATS server and logs in there:
// one set of settings for the engine, its command line, clients, workers and
// the outbox's relay, with the names that the nats program has for them.
//
// Settings come from several places, which [Merge] lays over one another: the
// command line, the environment ([FromEnv]), a configuration file and a context
// of the nats program ([Settings.Resolve] reads it). Of the login (credentials,
// nkey, user, token, or what stands in the server's URL) the first place that
// has one counts alone; it is never put together from two, except that a user's
// password may come from anywhere. A place that has two logins is an error.
//
// It is functions on values, safe for concurrent use. Files are checked when
// the options are made, and read again at each reconnect, so that credentials,
// passwords and certificates may be exchanged while a program runs; an nkey's
// seed may not, since the key that it belongs to is told once.
package connect
