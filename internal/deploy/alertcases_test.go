package deploy

// alertCase is a world in which one alert fires, or does not: what
// deploy/prometheus/alerts_test.yml is made of.
type alertCase struct {
	alert string
	what  string
	// series are in promtool's notation, one sample a minute from minute 0 on; each
	// gets the labels job and instance as well.
	series []string
	// from is the minute at which the alert's expression begins to hold: it fires
	// when its `for` is over, and not a minute before. never: in all the time that
	// the case takes, it doesn't fire.
	from int
	// labels are those of the alert beside severity, job and instance.
	labels string
	// summary is as it reaches a person.
	summary string
	// until is when a case ends in which the alert doesn't fire; 0: caseEnds.
	until int
}

const (
	never    = -1
	caseEnds = 45 // minutes, of a case in which the alert doesn't fire
)

// of is a sample's notation for a type.
const ofEmail = `type="email"`

// criticalCases are those of the critical alerts.
var criticalCases = []alertCase{
	{alert: "StreamwrightDown", what: "the engine does not answer", from: 6, series: []string{`up{} 1x5 0x40`},
		summary: "The engine at e:8484 does not answer."},
	{alert: "StreamwrightDown", what: "a scrape fails now and then", from: never, series: []string{`up{} 1x5 0 1x5 0 1x180`}},

	{alert: "StreamwrightNotOwner", what: "nobody owns", from: 6, series: []string{`streamwright_partition_owned{} 1x5 0x40`},
		summary: "No engine owns the partition: nothing is decided."},
	{alert: "StreamwrightNotOwner", what: "one of two engines owns", from: never, series: []string{
		`streamwright_partition_owned{} 1x200`, `streamwright_partition_owned{instance="f:8484"} 0x200`}},

	{alert: "StreamwrightNotAccepting", what: "no room", from: 6, series: []string{`streamwright_accepting{} 1x5 0x40`},
		summary: "New work is refused for want of room; what was accepted goes on."},
	{alert: "StreamwrightNotAccepting", what: "room", from: never, series: []string{`streamwright_accepting{} 1x200`}},

	{alert: "StreamwrightNoWorkers", what: "items wait and there is no worker", from: 11, labels: ofEmail, series: []string{
		`streamwright_queued{type="email",priority="5"} 3x40`, `streamwright_queued{type="email",priority="9"} 0x40`,
		`streamwright_scheduled{type="email"} 0x40`, `streamwright_type_workers{type="email"} 1x10 0x30`},
		summary: "Items of type email wait and no worker takes them."},
	{alert: "StreamwrightNoWorkers", what: "what is queued is not due yet", from: never, series: []string{
		`streamwright_queued{type="email",priority="5"} 3x200`, `streamwright_scheduled{type="email"} 3x200`, `streamwright_type_workers{type="email"} 0x200`}},

	{alert: "StreamwrightQueueVeryDeep", what: "very deep", from: 11, labels: `type="email",priority="5"`, series: []string{
		`streamwright_queued{type="email",priority="5"} 100x10 60000x40`, `streamwright_scheduled{type="email"} 0x60`},
		summary: "60k items of type email are queued at priority 5."},
	{alert: "StreamwrightQueueVeryDeep", what: "most is not due yet", from: never, series: []string{
		`streamwright_queued{type="email",priority="5"} 60000x200`, `streamwright_scheduled{type="email"} 59000x200`}},

	{alert: "StreamwrightQueueGrowing", what: "it grows", from: 3, labels: ofEmail, series: []string{
		`streamwright_queued{type="email",priority="5"} 900+50x40`, `streamwright_scheduled{type="email"} 0x40`},
		summary: "1.3k items of type email wait, and they become more."},
	{alert: "StreamwrightQueueGrowing", what: "deep, and it shrinks", from: never, series: []string{
		`streamwright_queued{type="email",priority="5"} 15000-50x200`, `streamwright_scheduled{type="email"} 0x200`}},
	{alert: "StreamwrightQueueGrowing", what: "what grows is not due yet", from: never, series: []string{
		`streamwright_queued{type="email",priority="5"} 2000+100x200`, `streamwright_scheduled{type="email"} 0+100x200`}},
	{alert: "StreamwrightQueueGrowing", what: "deep, and about the same", from: never, series: []string{
		`streamwright_queued{type="email",priority="5"} 20000+10x200`, `streamwright_scheduled{type="email"} 0x200`}},

	{alert: "StreamwrightUrgentQueueDeep", what: "many urgent ones", from: 6, labels: ofEmail, series: []string{
		`streamwright_queued{type="email",priority="8"} 0x5 600x40`, `streamwright_queued{type="email",priority="9"} 0x5 600x40`, `streamwright_scheduled{type="email"} 0x50`},
		summary: "1.2k urgent items (priority 8 and 9) of type email are queued."},
	{alert: "StreamwrightUrgentQueueDeep", what: "many that are not urgent", from: never, series: []string{
		`streamwright_queued{type="email",priority="5"} 6000x200`, `streamwright_queued{type="email",priority="9"} 900x200`, `streamwright_scheduled{type="email"} 0x200`}},
	{alert: "StreamwrightUrgentQueueDeep", what: "urgent ones of next week", from: never, series: []string{
		`streamwright_queued{type="email",priority="9"} 6000x200`, `streamwright_scheduled{type="email"} 5900x200`}},

	{alert: "StreamwrightFailureRateHigh", what: "one of three fails", from: 2, labels: ofEmail, series: []string{
		`streamwright_failures_total{type="email",code="error"} 0+10x40`, `streamwright_transitions_total{type="email",from="running",to="completed"} 0+20x40`},
		summary: "33.33% of the attempts of type email fail."},
	{alert: "StreamwrightFailureRateHigh", what: "all fail, from the engine's start on", from: 2, labels: ofEmail, series: []string{
		`streamwright_failures_total{type="email",code="error"} 0+10x40`},
		summary: "100% of the attempts of type email fail."},
	{alert: "StreamwrightFailureRateHigh", what: "one of eleven fails", from: never, series: []string{
		`streamwright_failures_total{type="email",code="error"} 0+10x200`, `streamwright_transitions_total{type="email",from="running",to="completed"} 0+100x200`}},
	{alert: "StreamwrightFailureRateHigh", what: "half fail, of very few", from: never, series: []string{
		`streamwright_failures_total{type="email",code="error"} 0+1x200`, `streamwright_transitions_total{type="email",from="running",to="completed"} 0+1x200`}},

	{alert: "StreamwrightDeadLettersGrowing", what: "twelve die a minute", from: 5, labels: ofEmail, series: []string{
		`streamwright_dead_total{type="email",reason="exhausted"} 0+12x40`},
		summary: "12 items of type email die each minute."},
	{alert: "StreamwrightDeadLettersGrowing", what: "a hundred die at once", from: 6, labels: ofEmail, series: []string{
		`streamwright_dead_total{type="email",reason="not_retryable"} 0x5 100x40`},
		summary: "20 items of type email die each minute."},
	{alert: "StreamwrightDeadLettersGrowing", what: "nine die a minute", from: never, series: []string{
		`streamwright_dead_total{type="email",reason="exhausted"} 0+9x200`}},

	{alert: "StreamwrightWorkersDying", what: "one is lost each minute", from: 14, series: []string{
		`streamwright_worker_failures_total{reason="heartbeat"} 0x10 0+1x40`, `streamwright_workers{state="active"} 10x60`, `streamwright_workers{state="dead"} 9x60`},
		summary: "28.57% of the workers were lost within five minutes."},
	{alert: "StreamwrightWorkersDying", what: "one of twenty is lost, and probes fail", from: never, series: []string{
		`streamwright_worker_failures_total{reason="heartbeat"} 0x10 1x190`, `streamwright_worker_failures_total{reason="probe"} 0+9x200`, `streamwright_workers{state="active"} 20x200`}},

	{alert: "StreamwrightThroughputHalved", what: "a sixth of what it was", from: 129, series: []string{
		`streamwright_transitions_total{type="email",from="running",to="completed"} 0+600x120 72000+100x80`, `streamwright_queue_age_oldest_seconds{type="email",priority="5"} 70x200`},
		summary: "Less than half as much is completed as two hours to one hour ago, and work waits for more than a minute."},
	{alert: "StreamwrightThroughputHalved", what: "the engine began again, and nothing is completed", from: 128, series: []string{
		`streamwright_transitions_total{type="email",from="running",to="completed"} 0+600x120 _x80`, `streamwright_queue_age_oldest_seconds{type="email",priority="5"} 70x200`},
		summary: "Less than half as much is completed as two hours to one hour ago, and work waits for more than a minute."},
	{alert: "StreamwrightThroughputHalved", what: "a sixth of what it was, since there is no more to do", from: never, until: 150, series: []string{
		`streamwright_transitions_total{type="email",from="running",to="completed"} 0+600x120 72000+100x80`, `streamwright_queue_age_oldest_seconds{type="email",priority="5"} 2x200`}},
}
