// Package page is the engine's web page: plain HTML, ES modules and CSS, embedded
// in the binary, with no build step and no outside host.
//
// # What is served
//
// "/" is the page; it names the modules and style sheets by a path that holds
// the hash of all of them together ("/assets/<hash>/js/main.js"). So what is
// under that path never changes and may be cached for good, a page never mixes
// the modules of two versions, and relative imports between modules work as they
// are written. Each file has its own hash as its ETag, and is compressed once,
// at start.
//
// The page says nothing by itself: it holds no data, so it needs no role. All
// that it shows comes from the API, which asks for the token. The page of a link to a
// question has the link's own, behind the #, where no server sees it.
//
// # What protects it
//
// The Content-Security-Policy allows scripts, styles and connections of this
// host alone, no inline ones, and no text that is made markup (trusted types):
// what a submitter writes into an item can't become part of the page.
//
// # How it is made
//
// assets/js/main.js starts it; README.md in assets/js says which module does
// what, and how to add a screen.
package page
