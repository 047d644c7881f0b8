// Package console is shared by the programs under cmd: the flags by which
// they find the engine, their exit codes, how they show things to people, and
// the tail. A program is a tree of cobra commands over an [App]; [App.Run]
// drives it with given arguments and streams, so that tests use it as people
// do.
//
// Standard output has what was asked for and nothing else; progress, hints and
// errors go to standard error. Colour and progress bars appear only on a
// terminal. Text that came from elsewhere (log lines, error texts) is shown
// without control characters.
package console
