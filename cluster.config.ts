/**
 * The topology of a cluster: how many shards, which processes, who waits how long for whom, and every bound.
 * Durations are milliseconds, sizes are bytes. All hosts of one cluster must run with the same values.
 */
export const clusterConfig = {
  /** An id carries its shard in ten bits, so this number never changes. */
  shards: 1024,

  processes: {
    /** Web workers per host; null: one per core, at least two. `WORKERS` overrides it. */
    web: null as number | null,
    job: 1,
    /**
     * Restarting a worker that died: first wait, growth per death in a row, ceiling; the lower ceiling is for one that had
     * become ready, because all that start-up needs is there and a longer wait only keeps clients out. Who killed it tells
     * nothing: a kernel that is out of memory sends the same signal as a person. One that was ready for `forgiveAfter`
     * begins a new row.
     */
    restart: { first: 100, factor: 2, max: 5_000, maxOnceReady: 1_000, forgiveAfter: 10_000 },
    /** From SIGTERM to SIGKILL of a worker. */
    drainTimeout: 20_000,
    /**
     * A worker that has not shown itself to its primary for so long is killed and replaced: its event loop is stuck. Only time
     * in which the primary itself was well counts. Three times as long while the worker is starting.
     */
    stuckAfter: 10_000,
  },

  membership: {
    renewEvery: 500,
    /** An owner stops serving this long after its last confirmed renewal. */
    serveFor: 1_500,
    /** An observer may declare a member dead that stood still this long while the observer itself was well. */
    deadAfter: 2_500,
  },

  handover: { shardsAtATime: 32, rebalanceEvery: 500 },

  bus: { askTimeout: 4_000, maxPendingAsks: 20_000, trimEvery: 1_000 },

  actors: {
    /** Commands waiting in one home, loaded homes per worker, commands under way per worker. */
    mailbox: 2_000,
    homes: 50_000,
    inFlight: 20_000,
    sleepAfter: 300_000,
    /** Turns in one commit, commits on their way to publication. */
    batch: 200,
    unpublishedBatches: 64,
    /** A published outbox row is kept this long, so that a repeated request id finds its answer. */
    outboxKeep: 15_000,
    outboxSweepEvery: 1_000,
  },

  log: {
    /** How long a delivery log keeps what was read: heartbeat interval + its timeout + the resume window. */
    keep: 200_000,
    maxBytes: 256 * 1024 * 1024,
    memoryBytes: 16 * 1024 * 1024,
    markEvery: 1_000,
    readCount: 500,
  },

  gateway: {
    heartbeatInterval: 45_000,
    resumeWindow: 60_000,
    /** A heartbeat of a session that was sent nothing for so long is answered with its position. */
    positionAfter: 30_000,
    /** Published per turn of the event loop before socket buffers are looked at. */
    publishSlice: 256 * 1024,
    /** Unsent bytes of one socket after which it falls back to reading its events from the log. */
    socketBudget: 1024 * 1024,
    stuckAfter: 30_000,
    identifyQueue: 10_000,
    identifyAtOnce: 64,
    connectionsPerUser: 5,
    framesPerMinute: 120,
    /** SDP, ICE, speaking and quality frames of one connection. */
    signalsPerMinute: 600,
    maxFrameBytes: 65_536,
    resumeReplayBytes: 64 * 1024 * 1024,
    classesPerAudience: 16,
  },

  http: {
    bodyBytes: 256 * 1024,
    bodyTimeout: 7_000,
    bodyDepth: 32,
    hashesQueued: 64,
    /** From the whole request to its answer, whatever it waits for; after that it is refused as "not now". */
    answerTimeout: 4_400,
  },

  /** A statement that has no answer after `statementTimeout` is given up, there and here. */
  storage: { readConnections: 6, statementTimeout: 3_500, connectTimeout: 3_000 },
}

export type ClusterConfig = typeof clusterConfig
