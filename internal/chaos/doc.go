// Package chaos holds tests that treat the engine as the world does: real
// processes, killed at random moments.
package chaos
