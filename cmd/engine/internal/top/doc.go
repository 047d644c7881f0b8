// Package top is the screen of `engine top`: the engine's types, workers and items, live,
// in a terminal.
//
// A [Model] is a state and what keys and answers make of it: Update takes a message, View
// draws the state, and neither waits. It asks the engine through a [Source], one question
// at a time: a page that is left has its question cancelled, and a tick that comes while a
// question is open asks nothing. What changes something is asked first, with y and n.
//
// Text reaches the screen only in spans, which clean it, and lines, which cut it: so no
// control character of an item gets to the terminal, and no line wraps.
package top
