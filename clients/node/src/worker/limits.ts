/** Bounds and times of a worker; those of the Go worker. */
export const maxConcurrency = 1_000;
export const maxReports = 1_000; // of one request
export const maxReportBytes = 256 * 1024; // from which a request takes no further report
export const reportSenders = 2; // requests on their way at once
export const requestMs = 5_000;
export const farewellMs = 2_000;
export const probeMs = 2_000; // for the answer to a probe
export const settleMs = 5_000; // for the last reports, once handlers are done
export const abandonMs = 10_000; // how long stop waits for a handler whose signal it has aborted
export const backoffMinMs = 50;
export const backoffMaxMs = 2_000;
export const minHeartbeatMs = 100;
export const defaultHeartbeatMs = 20_000;
export const defaultLeaseMs = 30_000;
export const restMs = 250; // from handing back what was not begun to the heartbeat after which the engine sends more
export const startAfterMs = 2; // how long a run has to end before its start is reported
export const lookMs = 250; // how often a worker looks whether its event loop was blocked
export const stallMs = 1_000; // the block after which items may have gone back to the engine unheard
export const slowRunMs = 1_000; // the mean run time to begin with
export const progressEveryMs = 1_000;
export const maxDelayMs = 10 * 365 * 24 * 3_600_000;
export const maxErrorBytes = 8_192;
export const maxNameBytes = 256;
export const maxLogBytes = 8_192;
export const maxProgressBytes = 1_024;
export const maxCheckpointBytes = 64 * 1024;
export const maxChildren = 10_000;
export const maxSpawnBytes = 16 * 1024 * 1024;
export const maxInlineChildren = 512 * 1024; // bytes of children that go with a report; more go to the object store

/** A clock that does not jump, in milliseconds. */
export function now(): number {
  return performance.now();
}
