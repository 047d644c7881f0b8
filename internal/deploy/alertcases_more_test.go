package deploy

// otherCases are those of the alerts that are not critical.
var otherCases = []alertCase{
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

	{alert: "StreamwrightWorkersDying", what: "one is lost each minute", from: 14, series: []string{
		`streamwright_worker_failures_total{reason="heartbeat"} 0x10 0+1x40`, `streamwright_workers{state="active"} 10x60`, `streamwright_workers{state="dead"} 9x60`},
		summary: "33.33% of the workers were lost within five minutes."},
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

	{alert: "StreamwrightFailureRateElevated", what: "one of seven fails", from: 2, labels: ofEmail, series: []string{
		`streamwright_failures_total{type="email",code="error"} 0+10x40`, `streamwright_transitions_total{type="email",from="running",to="completed"} 0+60x40`},
		summary: "14.29% of the attempts of type email fail."},
	{alert: "StreamwrightFailureRateElevated", what: "one of eleven fails", from: never, series: []string{
		`streamwright_failures_total{type="email",code="error"} 0+10x200`, `streamwright_transitions_total{type="email",from="running",to="completed"} 0+100x200`}},

	{alert: "StreamwrightReplayable", what: "many that may complete now", from: 6, labels: ofEmail, series: []string{`streamwright_dead_replayable{type="email"} 0x5 250x40`},
		summary: "250 dead items of type email ran out of attempts on failures that may pass."},
	{alert: "StreamwrightReplayable", what: "a hundred", from: never, series: []string{
		`streamwright_dead_replayable{type="email"} 100x200`, `streamwright_items{type="email",state="dead"} 900x200`}},

	{alert: "StreamwrightStarvation", what: "two starve", from: 6, labels: ofEmail, series: []string{`streamwright_starving{type="email"} 0x5 2x40`},
		summary: "2 items of type email have waited for nearly as long as others can overtake them."},
	{alert: "StreamwrightStarvation", what: "one does for a moment", from: never, series: []string{`streamwright_starving{type="email"} 0x5 1x3 0x190`}},

	{alert: "StreamwrightLowPriorityWaits", what: "a low one waits", from: 6, labels: ofEmail, series: []string{
		`streamwright_queue_age_oldest_seconds{type="email",priority="2"} 0x5 1600x40`},
		summary: "An item of low priority of type email has waited for 26m 40s."},
	{alert: "StreamwrightLowPriorityWaits", what: "one of middling priority waits", from: never, series: []string{
		`streamwright_queue_age_oldest_seconds{type="email",priority="2"} 1400x200`, `streamwright_queue_age_oldest_seconds{type="email",priority="5"} 1600x200`}},

	{alert: "StreamwrightUrgentWaits", what: "an urgent one waits", from: 6, labels: ofEmail, series: []string{
		`streamwright_queue_age_oldest_seconds{type="email",priority="8"} 0x5 90x40`},
		summary: "An urgent item of type email has waited for 1m 30s."},
	{alert: "StreamwrightUrgentWaits", what: "one of middling priority waits", from: never, series: []string{
		`streamwright_queue_age_oldest_seconds{type="email",priority="9"} 50x200`, `streamwright_queue_age_oldest_seconds{type="email",priority="7"} 90x200`}},

	{alert: "StreamwrightQueueAgeHigh", what: "most wait long", from: 6, labels: ofEmail, series: []string{
		`streamwright_queue_age_p95_seconds{type="email",priority="5"} 0x5 700x40`},
		summary: "Items of type email wait for 11m 40s (95 %)."},
	{alert: "StreamwrightQueueAgeHigh", what: "one does", from: never, series: []string{
		`streamwright_queue_age_p95_seconds{type="email",priority="5"} 500x200`, `streamwright_queue_age_oldest_seconds{type="email",priority="5"} 700x200`}},

	{alert: "StreamwrightStaleItems", what: "one waits for more than an hour", from: 6, labels: ofEmail, series: []string{
		`streamwright_queue_age_oldest_seconds{type="email",priority="5"} 0x5 4000x40`},
		summary: "An item of type email has waited for 1h 6m 40s."},
	{alert: "StreamwrightStaleItems", what: "one waits for half an hour", from: never, series: []string{
		`streamwright_queue_age_oldest_seconds{type="email",priority="5"} 1800x200`}},

	{alert: "StreamwrightNobodyAnswers", what: "for more than a day", from: 6, labels: `type="order",signal="paid"`, series: []string{
		`streamwright_awaiting_signal_oldest_seconds{type="order",signal="paid"} 0x5 90000x40`},
		summary: "An item of type order has waited for the signal paid for 1d 1h 0m 0s."},
	{alert: "StreamwrightNobodyAnswers", what: "for some hours", from: never, series: []string{
		`streamwright_awaiting_signal_oldest_seconds{type="order",signal="paid"} 40000x200`}},

	{alert: "StreamwrightQueueDeep", what: "deep, over all priorities", from: 6, labels: ofEmail, series: []string{
		`streamwright_queued{type="email",priority="5"} 100x5 3500x40`, `streamwright_queued{type="email",priority="6"} 100x5 2500x40`, `streamwright_scheduled{type="email"} 0x50`},
		summary: "6k items of type email wait."},
	{alert: "StreamwrightQueueDeep", what: "most is not due yet", from: never, series: []string{
		`streamwright_queued{type="email",priority="5"} 6000x200`, `streamwright_scheduled{type="email"} 5900x200`}},

	{alert: "StreamwrightQueueNearLimit", what: "queued and waiting ones together", from: 6, labels: ofEmail, series: []string{
		`streamwright_items{type="email",state="queued"} 100x5 700x40`, `streamwright_items{type="email",state="waiting"} 0x5 150x40`,
		`streamwright_items{type="email",state="completed"} 9000x50`, `streamwright_max_queued{type="email"} 1000x50`},
		summary: "The queue of type email is nearly at its limit: soon submissions get queue_full."},
	{alert: "StreamwrightQueueNearLimit", what: "far from it, or no limit", from: never, series: []string{
		`streamwright_items{type="email",state="queued"} 700x200`, `streamwright_items{type="email",state="completed"} 9000x200`, `streamwright_max_queued{type="email"} 1000x200`,
		`streamwright_items{type="report",state="queued"} 7000x200`}},

	{alert: "StreamwrightWorkersBusy", what: "busy", from: 6, series: []string{`streamwright_worker_slots_used_ratio{} 0.5x5 0.95x40`},
		summary: "95% of the slots are in use."},
	{alert: "StreamwrightWorkersBusy", what: "less busy", from: never, series: []string{`streamwright_worker_slots_used_ratio{} 0.89x200`}},

	{alert: "StreamwrightFewIdleWorkers", what: "one of ten is idle", from: 6, series: []string{
		`streamwright_workers_idle{} 5x5 1x40`, `streamwright_workers{state="active"} 10x50`, `streamwright_workers{state="dead"} 30x50`, `streamwright_worker_slots_used_ratio{} 0.4x5 0.85x40`},
		summary: "Only 10% of the workers are idle, and the others have less than a fifth of their slots free."},
	{alert: "StreamwrightFewIdleWorkers", what: "each runs something, and has many slots free", from: never, series: []string{
		`streamwright_workers_idle{} 0x200`, `streamwright_workers{state="active"} 10x200`, `streamwright_worker_slots_used_ratio{} 0.3x200`}},
	{alert: "StreamwrightFewIdleWorkers", what: "there is no worker", from: never, series: []string{
		`streamwright_workers_idle{} 0x200`, `streamwright_workers{state="active"} 0x200`, `streamwright_worker_slots_used_ratio{} 0x200`}},

	{alert: "StreamwrightRetriesHigh", what: "one retry for two completions", from: 2, labels: ofEmail, series: []string{
		`streamwright_retries_total{type="email",code="error"} 0+10x40`, `streamwright_transitions_total{type="email",from="running",to="completed"} 0+20x40`},
		summary: "Items of type email are retried 10 times a minute: more than 15 retries for every 100 completions."},
	{alert: "StreamwrightRetriesHigh", what: "nothing is completed, from the engine's start on", from: 2, labels: ofEmail, series: []string{
		`streamwright_retries_total{type="email",code="error"} 0+10x40`},
		summary: "Items of type email are retried 10 times a minute: more than 15 retries for every 100 completions."},
	{alert: "StreamwrightRetriesHigh", what: "one retry for ten completions", from: never, series: []string{
		`streamwright_retries_total{type="email",code="error"} 0+10x200`, `streamwright_transitions_total{type="email",from="running",to="completed"} 0+100x200`}},

	{alert: "StreamwrightWorkerCircuitsOpen", what: "six, open or half open", from: 6, series: []string{
		`streamwright_worker_circuits{state="open"} 0x5 4x40`, `streamwright_worker_circuits{state="half_open"} 0x5 2x40`},
		summary: "6 workers are left out since what they run fails."},
	{alert: "StreamwrightWorkerCircuitsOpen", what: "five", from: never, series: []string{`streamwright_worker_circuits{state="open"} 5x200`}},

	{alert: "StreamwrightTypeCircuitOpen", what: "open", from: 6, labels: `type="email",state="open"`, series: []string{
		`streamwright_circuit{type="email",state="open"} 0x5 1x40`, `streamwright_circuit{type="email",state="closed"} 1x5 0x40`},
		summary: "The circuit of type email is open: its items wait."},
	{alert: "StreamwrightTypeCircuitOpen", what: "closed, and half open", from: never, series: []string{
		`streamwright_circuit{type="email",state="open"} 0x200`, `streamwright_circuit{type="email",state="closed"} 1x100 0x100`, `streamwright_circuit{type="email",state="half_open"} 0x100 1x100`}},

	{alert: "StreamwrightClaimsNotStarted", what: "seven a minute", from: 4, labels: ofEmail, series: []string{
		`streamwright_recoveries_total{type="email",cause="not_started"} 0+4x40`, `streamwright_recoveries_total{type="email",cause="unclaimed"} 0+3x40`},
		summary: "7 dispatches of type email a minute are not started in time."},
	{alert: "StreamwrightClaimsNotStarted", what: "other repairs", from: never, series: []string{
		`streamwright_recoveries_total{type="email",cause="not_started"} 0+4x200`, `streamwright_recoveries_total{type="email",cause="lease_expired"} 0+9x200`}},

	{alert: "StreamwrightProbesFailing", what: "twelve a minute", from: 5, series: []string{`streamwright_worker_failures_total{reason="probe"} 0+12x40`},
		summary: "12 probes of workers fail each minute."},
	{alert: "StreamwrightProbesFailing", what: "nine a minute", from: never, series: []string{
		`streamwright_worker_failures_total{reason="probe"} 0+9x200`, `streamwright_worker_failures_total{reason="heartbeat"} 0+9x200`}},

	{alert: "StreamwrightProjectionBehind", what: "it stands still", from: 6, series: []string{
		`streamwright_projection_lag_seconds{} 0x5 12x40`, `streamwright_projection_lag_events{} 0x5 3x40`},
		summary: "Queries at e:8484 lag behind the log."},
	{alert: "StreamwrightProjectionBehind", what: "it is far behind", from: 6, series: []string{
		`streamwright_projection_lag_seconds{} 0x50`, `streamwright_projection_lag_events{} 0x5 60000x40`},
		summary: "Queries at e:8484 lag behind the log."},
	{alert: "StreamwrightProjectionBehind", what: "a little", from: never, series: []string{
		`streamwright_projection_lag_seconds{} 1x200`, `streamwright_projection_lag_events{} 4000x200`}},

	{alert: "StreamwrightOwnerChanges", what: "four times", from: 6, series: []string{`streamwright_takeovers_total{} 0x5 4x40`},
		summary: "The log has changed its owner 4 times within an hour."},
	{alert: "StreamwrightOwnerChanges", what: "all nodes restart once", from: never, series: []string{`streamwright_takeovers_total{} 0x5 3x190`}},

	{alert: "StreamwrightClusterAtRisk", what: "a node is missing", from: 6, series: []string{
		`streamwright_alarm{code="cluster_at_risk",severity="warning"} 0x5 1x40`},
		summary: "A node or a replica is missing: the loss of another machine may stop the work."},
	{alert: "StreamwrightClusterAtRisk", what: "one restarts", from: never, series: []string{
		`streamwright_alarm{code="cluster_at_risk",severity="warning"} 0x5 1x1 0x190`, `streamwright_alarm{code="behind",severity="warning"} 1x200`}},

	{alert: "StreamwrightForeignMessages", what: "one has come", from: 6, series: []string{`streamwright_log_foreign_messages_total{} 0x5 1x40`},
		summary: "Something else writes to the event log of e:8484."},
	{alert: "StreamwrightForeignMessages", what: "none has come lately", from: never, series: []string{`streamwright_log_foreign_messages_total{} 7x200`}},
	{alert: "StreamwrightReplicaDamaged", what: "one is", from: 6, labels: `stream="WORK_EVENTS_0"`, series: []string{
		`streamwright_replicas_damaged{stream="WORK_EVENTS_0"} 0x5 1x40`},
		summary: "The replica of WORK_EVENTS_0 on e:8484 is damaged."},
	{alert: "StreamwrightReplicaDamaged", what: "all are whole", from: never, series: []string{`streamwright_replicas_damaged{stream="WORK_EVENTS_0"} 0x200`}},

	{alert: "StreamwrightSettingsDiffer", what: "one node's do", from: 6, series: []string{`streamwright_nodes_settings_differ{} 0x5 1x40`},
		summary: "The nodes have different settings: a takeover would change how work is done."},
	{alert: "StreamwrightSettingsDiffer", what: "while they are changed one by one", from: never, series: []string{`streamwright_nodes_settings_differ{} 0x5 1x4 0x190`}},

	{alert: "StreamwrightOwnershipLost", what: "lost once", from: 6, series: []string{`streamwright_ownerships_lost_total{} 0x5 1x40`},
		summary: "The engine has lost its partition, and begun again from the log."},
	{alert: "StreamwrightOwnershipLost", what: "lost long ago", from: never, series: []string{`streamwright_ownerships_lost_total{} 3x200`}},

	{alert: "StreamwrightIntakeBacklog", what: "a backlog", from: 6, series: []string{`streamwright_intake_backlog{} 0x5 12000x40`},
		summary: "12k published submissions are not decided yet."},
	{alert: "StreamwrightIntakeBacklog", what: "a burst", from: never, series: []string{`streamwright_intake_backlog{} 0x5 12000x3 900x190`}},

	{alert: "StreamwrightStorageFilling", what: "the streams are nearly full", from: 6, series: []string{
		`streamwright_storage_used_bytes{} 10x5 85x40`, `streamwright_storage_max_bytes{} 100x50`},
		summary: "The storage of e:8484 is nearly used up."},
	{alert: "StreamwrightStorageFilling", what: "the disk is nearly full", from: 6, series: []string{
		`streamwright_disk_free_bytes{} 100x5 3x40`, `streamwright_disk_min_free_bytes{} 1x50`, `streamwright_storage_used_bytes{} 85x50`},
		summary: "The storage of e:8484 is nearly used up."},
	{alert: "StreamwrightStorageFilling", what: "there is room", from: never, series: []string{
		`streamwright_storage_used_bytes{} 75x200`, `streamwright_storage_max_bytes{} 100x200`, `streamwright_disk_free_bytes{} 50x200`, `streamwright_disk_min_free_bytes{} 1x200`}},

	{alert: "StreamwrightRejections", what: "three a minute", from: 2, labels: `code="bad_params"`, series: []string{
		`streamwright_rejections_total{code="bad_params"} 0+3x40`},
		summary: "3 published submissions a minute are rejected: bad_params."},
	{alert: "StreamwrightRejections", what: "repeats", from: never, series: []string{
		`streamwright_rejections_total{code="duplicate"} 0+30x200`, `streamwright_rejections_total{code="bad_params"} 0x50 1x140`}},

	{alert: "StreamwrightQueueNotable", what: "two thousand", from: 6, labels: ofEmail, series: []string{
		`streamwright_queued{type="email",priority="5"} 100x5 2000x40`, `streamwright_scheduled{type="email"} 0x50`},
		summary: "2k items of type email wait."},
	{alert: "StreamwrightQueueNotable", what: "most is not due yet", from: never, series: []string{
		`streamwright_queued{type="email",priority="5"} 2000x200`, `streamwright_scheduled{type="email"} 1900x200`}},

	{alert: "StreamwrightLeasesExpire", what: "three a minute", from: 2, labels: ofEmail, series: []string{`streamwright_leases_expired_total{type="email"} 0+3x40`},
		summary: "3 runs of type email a minute lose their lease."},
	{alert: "StreamwrightLeasesExpire", what: "one now and then", from: never, series: []string{`streamwright_leases_expired_total{type="email"} 0x20 1x20 2x150`}},

	{alert: "StreamwrightUnhealthyWorkers", what: "three of thirteen", from: 6, labels: `state="unhealthy"`, series: []string{
		`streamwright_workers{state="unhealthy"} 0x5 3x40`, `streamwright_workers{state="active"} 10x50`, `streamwright_workers{state="dead"} 90x50`},
		summary: "3 workers are unhealthy."},
	{alert: "StreamwrightUnhealthyWorkers", what: "one of thirteen", from: never, series: []string{
		`streamwright_workers{state="unhealthy"} 1x200`, `streamwright_workers{state="active"} 12x200`}},

	{alert: "StreamwrightScale", what: "two workers where four would do", from: 6, labels: ofEmail, series: []string{
		`streamwright_desired_workers{type="email"} 1x5 4x40`, `streamwright_type_workers{type="email"} 2x50`},
		summary: "Type email needs 4 workers."},
	{alert: "StreamwrightScale", what: "two workers where three would do", from: never, series: []string{
		`streamwright_desired_workers{type="email"} 3x200`, `streamwright_type_workers{type="email"} 2x200`}},

	{alert: "StreamwrightDuplicates", what: "a hundred a minute", from: 4, series: []string{
		`streamwright_rejections_total{code="duplicate"} 0+60x60`, `streamwright_rejections_total{code="id_conflict"} 0+40x60`},
		summary: "100 submissions a minute repeat others."},
	{alert: "StreamwrightDuplicates", what: "fifty a minute", from: never, series: []string{
		`streamwright_rejections_total{code="duplicate"} 0+50x200`, `streamwright_rejections_total{code="bad_params"} 0+90x200`}},

	{alert: "StreamwrightNewCause", what: "a new one", from: 6, labels: `why="new"`, series: []string{`streamwright_causes_noted_total{why="new"} 0x5 1x70`},
		summary: "Items die of something new, or of something that grows fast."},
	{alert: "StreamwrightNewCause", what: "none since the engine began", from: never, series: []string{`streamwright_causes_noted_total{why="new"} 0x200`, `streamwright_causes_noted_total{why="growing"} 0x200`}},
}
