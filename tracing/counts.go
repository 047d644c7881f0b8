package tracing

// SpanCounts are the spans that a process has ended and that are sampled, by what
// has become of them; those that wait to be sent are in none.
type SpanCounts struct {
	Sent    uint64 // the receiver has taken them
	Failed  uint64 // the receiver did not take them, or not in time
	Dropped uint64 // there was no room in the queue
}

// SpanCounter is a tracer provider that counts. It may be used by any goroutine.
type SpanCounter interface{ SpanCounts() SpanCounts }
