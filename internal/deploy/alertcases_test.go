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

	{alert: "StreamwrightClockImplausible", what: "the clock is wrong", from: 6, series: []string{`streamwright_clock_implausible{} 0x5 1x40`},
		summary: "The clock of the NATS server is implausible: it is not followed."},
	{alert: "StreamwrightClockImplausible", what: "the clock is right", from: never, series: []string{`streamwright_clock_implausible{} 0x200`}},

	{alert: "StreamwrightAlarm", what: "the intake is full", from: 6, labels: `code="intake_limit"`, series: []string{`streamwright_alarm{code="intake_limit",severity="critical"} 0x5 1x40`},
		summary: "The engine at e:8484 refuses or holds work: intake_limit."},
	{alert: "StreamwrightAlarm", what: "it soon will be, and the disk, which has an alert of its own, is full", from: never, series: []string{
		`streamwright_alarm{code="intake_limit",severity="warning"} 1x200`, `streamwright_alarm{code="disk_low",severity="critical"} 1x200`}},

	{alert: "StreamwrightNodeCutOff", what: "it hears nothing", from: 6, series: []string{`streamwright_node_cut_off{} 0x5 1x40`},
		summary: "The node at e:8484 is cut off from the log: what it shows is old."},
	{alert: "StreamwrightNodeCutOff", what: "for a moment", from: never, series: []string{`streamwright_node_cut_off{} 0x5 1 0x190`}},

	{alert: "StreamwrightNoWorkers", what: "the type is paused", from: never, series: []string{
		`streamwright_queued{type="email",priority="5"} 3x200`, `streamwright_scheduled{type="email"} 0x200`, `streamwright_type_workers{type="email"} 0x200`, `streamwright_paused{type="email"} 1x200`}},
	{alert: "StreamwrightNoWorkers", what: "items wait and there is no worker", from: 11, labels: ofEmail, series: []string{
		`streamwright_queued{type="email",priority="5"} 3x40`, `streamwright_queued{type="email",priority="9"} 0x40`,
		`streamwright_scheduled{type="email"} 0x40`, `streamwright_type_workers{type="email"} 1x10 0x30`},
		summary: "Items of type email wait and no worker takes them."},
	{alert: "StreamwrightNoWorkers", what: "of two namespaces in one scrape, one has no worker", from: 11, labels: `namespace="acme",type="email"`, series: []string{
		`streamwright_queued{namespace="acme",type="email",priority="5"} 3x40`, `streamwright_scheduled{namespace="acme",type="email"} 0x40`, `streamwright_type_workers{namespace="acme",type="email"} 1x10 0x30`,
		`streamwright_queued{namespace="default",type="email",priority="5"} 3x40`, `streamwright_scheduled{namespace="default",type="email"} 0x40`, `streamwright_type_workers{namespace="default",type="email"} 1x40`},
		summary: "Items of type email wait and no worker takes them."},
	{alert: "StreamwrightNoWorkers", what: "what is queued is not due yet", from: never, series: []string{
		`streamwright_queued{type="email",priority="5"} 3x200`, `streamwright_scheduled{type="email"} 3x200`, `streamwright_type_workers{type="email"} 0x200`}},

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
}
