// Package pagetest holds the tests of the web page: a real browser, a real
// engine, real workers and work. A test starts a [world] (or several), opens
// pages in it, and looks at what an operator would see; what an action has done
// is asked of the engine, not of the page.
//
// Each page fails its test at the end if the browser has reported anything: an
// error on the console, a violation of the Content-Security-Policy, a request
// that failed. What a test provokes itself it declares with expect.
//
// It is a module of its own, so that users of the main one do not download chromedp;
// internal/modules runs its tests.
//
// With the environment variable UPDATE_SCREENS set, the test of the screenshots
// writes docs/screens/*.png anew.
package pagetest
