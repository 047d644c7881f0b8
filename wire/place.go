package wire

// MaxPlaces is how many items one Place asks about.
const MaxPlaces = 100

// Place asks where queued items stand. Counting takes time in a deep queue, so
// one request counts a bounded number of items and takes a bounded time: what
// is left over then has no Ahead in the answer.
type Place struct {
	IDs         []string `json:"ids"` // at most MaxPlaces
	MinPosition Position `json:"min_position,omitempty"`
}

// PlaceReply answers a Place, in its order.
type PlaceReply struct {
	Places []Placed `json:"places"`
}

// Placed is where an item stands now. Ahead is left out for an item that is not
// queued, or is not due yet; 10,000 means so many or more. EstimatedWaitMS is
// left out where nothing is known to compute it from: no worker, or no run of
// the type of late.
type Placed struct {
	ID              string `json:"id"`
	Ahead           *int   `json:"ahead,omitempty"`
	EstimatedWaitMS *int64 `json:"estimated_wait_ms,omitempty"`
}
