// Package nudge wakes a goroutine through a channel with room for one.
package nudge

// Send leaves a value in c, unless it is full: then what would be said has been said. It
// never blocks.
func Send(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
