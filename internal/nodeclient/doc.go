// Package nodeclient has only tests: it runs the tests of clients/node, by npm, against
// the engine of this source tree.
package nodeclient
