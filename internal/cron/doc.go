// Package cron computes when periodic work is due: the ticks of a cron expression in
// a time zone, or of an interval.
//
// It is outside the pure core because it needs the time zone database, whose
// content changes from one machine and year to the next. What it computes is
// recorded in the log by whoever asks, and never computed again.
//
// # Expressions
//
// Five fields, separated by blanks: minute, hour, day of the month, month, day
// of the week. A field is a list of values, ranges (1-5) and steps (*/15,
// 10-50/20), or * for all. Months and days of the week have their English
// names too (jan, MON); Sunday is 0 or 7. If both days are given, either
// will do, as in every cron. The words @hourly, @daily,
// @midnight, @weekly, @monthly, @yearly and @annually mean what they say, and
// "@every 90s" is an interval.
//
// # Clock changes
//
// An expression whose hour field has all hours goes by real time: its ticks
// neither stop nor come double when a zone changes its offset. Any other
// expression goes by the clock on the wall: a tick whose time is skipped comes at
// the first moment after the gap, and a tick whose time comes twice is the first of
// the two. Two ticks at
// one moment are one tick. Those are the rules of ISC cron.
//
// # Why not a library
//
// github.com/robfig/cron, the usual one, has had no release since 2020. It
// leaves out the ticks in a skipped hour and repeats those in a repeated one,
// panics on some expressions, and its errors do not name the field.
//
// All functions are safe for concurrent use. The time zone database is linked
// into the program; one of the machine's own goes before it.
package cron
