// Package arch has no code. Its tests hold the repository to its architecture:
// which package may import which, what the clients never depend on, and how
// large packages, receivers and functions may grow.
package arch
