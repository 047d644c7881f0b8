// Package pythonclient has only tests: it runs the tests of clients/python against the
// engine of this source tree.
package pythonclient
