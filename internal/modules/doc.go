// Package modules runs the tests of the modules that the repository holds beside
// the main one.
package modules
