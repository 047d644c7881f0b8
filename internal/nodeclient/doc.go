// Package nodeclient has only tests: those of clients/node, run by npm against
// the engine of this source tree.
package nodeclient
