/**
 * The topology of a cluster: which processes, who waits how long for whom, and every bound.
 * Durations are milliseconds, sizes are bytes. All hosts of one cluster must run with the same values.
 */
export const clusterConfig = {
  processes: {
    /** Web workers per host; null: one per core, at least two. `WORKERS` overrides it. */
    web: null as number | null,
    job: 1,
    /** Whether processes of one host talk over unix sockets; otherwise through Redis, as hosts do. */
    unixSockets: true,
    /**
     * Restarting a worker that died: first wait, growth per death in a row, ceiling; the lower ceiling is for one that had
     * become ready, because all that start-up needs is there and a longer wait only keeps clients out. Who killed it tells
     * nothing: a kernel that is out of memory sends the same signal as a person. One that was ready for `forgiveAfterMs`
     * begins a new row.
     */
    restart: { firstMs: 100, factor: 2, maxMs: 5_000, maxOnceReadyMs: 1_000, forgiveAfterMs: 10_000 },
    /** From SIGTERM to SIGKILL of a worker. */
    drainTimeoutMs: 20_000,
    /**
     * A worker that has not shown itself to its primary for so long is killed and replaced: its event loop is stuck. Only time
     * in which the primary itself was well counts. Three times as long while the worker is starting.
     */
    stuckAfterMs: 10_000,
  },

  membership: {
    renewEveryMs: 500,
    /** An owner stops serving this long after its last confirmed renewal. */
    serveForMs: 1_500,
    /** An observer may declare a member dead that stood still this long while the observer itself was well. */
    deadAfterMs: 2_500,
  },

  handover: { shardsAtATime: 32, rebalanceEveryMs: 500 },

  bus: {
    askTimeoutMs: 4_000,
    maxPendingAsks: 20_000,
    trimEveryMs: 1_000,
    /** A worker of the same host that was sent `maxUntaken` characters and has not taken them, or takes nothing for `stuckAfterMs`, is sent the rest through Redis. */
    sockets: { maxUntaken: 16 * 1024 * 1024, stuckAfterMs: 2_000 },
  },

  /**
   * Access sessions that a web worker keeps in its memory: so many, of so many bytes, for so long. Requests with one of them ask
   * nobody for it. What others change in the database without saying so is noticed that much later at most.
   */
  sessions: { kept: 10_000, keptBytes: 32 * 1024 * 1024, keptMs: 30_000 },

  actors: {
    /** Commands waiting in one home, loaded homes per worker, commands under way per worker. */
    mailbox: 2_000,
    homes: 50_000,
    inFlight: 20_000,
    sleepAfterMs: 300_000,
    /** Turns in one commit, commits on their way to publication. */
    batch: 200,
    unpublishedBatches: 64,
    /** A worker that could not commit or publish anything for so long, although something waited, is not ready. */
    notReadyAfterMs: 3_000,
    /** A published outbox row is kept this long, so that a repeated request id finds its answer. */
    outboxKeepMs: 15_000,
    outboxSweepEveryMs: 1_000,
  },

  log: {
    /** How long a delivery log keeps what was read: heartbeat interval + its timeout + the resume window. */
    keepMs: 200_000,
    maxBytes: 256 * 1024 * 1024,
    memoryBytes: 16 * 1024 * 1024,
    markEveryMs: 1_000,
    readCount: 500,
  },

  gateway: {
    heartbeatIntervalMs: 45_000,
    resumeWindowMs: 60_000,
    /** A heartbeat of a session that was sent nothing for so long is answered with its position. */
    positionAfterMs: 30_000,
    connectionsPerUser: 5,
    /** A user who has not typed again for so long has stopped. */
    typingTimeoutMs: 10_000,
    resumeReplayBytes: 64 * 1024 * 1024,
    classesPerAudience: 16,
    sockets: {
      /** Published per turn of the event loop before socket buffers are looked at. */
      sliceBytes: 256 * 1024,
      /** Unsent bytes of one socket after which it falls back to reading its events from the log. */
      budgetBytes: 1024 * 1024,
      /** A socket that makes no progress for so long is closed. */
      stuckAfterMs: 30_000,
      /**
       * Of one address, or of one /64, on a worker: all sockets, and those that have not identified. An IPv6 /56 has four times as many and a
       * /48 sixteen times. `UNLIMITED_ADDRESSES` names addresses that these bounds leave out.
       */
      maxPerAddress: 5_000,
      maxUnidentifiedPerAddress: 100,
    },
    /** How many are handled at once, and how many may wait. A socket on which none has come after `timeoutMs` is closed. */
    identify: { maxConcurrent: 64, maxWaiting: 10_000, timeoutMs: 15_000 },
    /** What one connection may send. */
    frames: {
      /** Whatever it is: heartbeats, pings, voice signals and what is ignored, too. */
      allPerMinute: 2_400,
      perMinute: 120,
      /** SDP, ICE, speaking and quality frames, which are counted apart. */
      signalsPerMinute: 600,
      maxBytes: 65_536,
      /** What a compressed frame may hold. */
      maxInflatedBytes: 262_144,
    },
    /**
     * A worker that leaves sends its sessions elsewhere, so many a second that the others can resume them; if there are too many for that, all of
     * them within `withinMs`. It is part of `processes.drainTimeoutMs`.
     */
    drain: { perSecond: 2_500, withinMs: 8_000 },
    /** How often it is written, in one statement, what clients have said to have received. */
    deliveries: { cursorsEveryMs: 1_000 },
  },

  presence: {
    /** Changes of what others see are gathered for so long, by the owners of the users' homes and again by each worker. */
    flushEveryMs: 250,
    gatherForMs: 100,
    /** Users whose changes wait on one worker to be sent; beyond that, and while the worker is behind, they are shed. */
    gathered: 10_000,
    /** Somebody without a session is given so long to appear on another worker. */
    graceMs: 400,
    /**
     * Changes of one user are sent at most this often; those of a user who concerns very many homes may
     * be delayed up to the second value. That a user goes offline is sent at once.
     */
    spreadEveryMs: 1_000,
    spreadAtLeastEveryMs: 5_000,
    /** After so long what was said has arrived, or the death of the worker that bore it is known. */
    settleAfterMs: 10_000,
    /** From a question to its answer; then it is refused as "not now". */
    askTimeoutMs: 1_000,
    /** Servers with more members are told nothing: their members ask. */
    members: 1_000,
    /** How often those are looked at whom sessions of such servers have asked for. */
    watchEveryMs: 5_000,
  },

  /**
   * Job workers keep the search index behind what is committed. Messages are gathered for `gatherForMs` and written `batch` at a time; while
   * much is sent, this takes no more than a `share` of one connection's time of each job worker, until the index has been behind for
   * `maxBehindMs`: then as much as it needs.
   */
  search: {
    gatherForMs: 250,
    batch: 500,
    share: 0.04,
    maxBehindMs: 600_000,
    /**
     * So long after the first new row all of them are sorted into the indexes, unless much is sent: until then every search goes through
     * them one by one.
     */
    sortEveryMs: 5_000,
    /** Messages of a channel whose texts are in one block, and after how many new ones it is looked, on average, whether they make one. */
    blocks: { messages: 128, messagesPerLook: 128 },
    /** Searches by words and operators. */
    words: {
      /** What so many messages match, by what PostgreSQL knows of words, is looked up at once; the same where phrases have to be read in them. */
      few: 1_000,
      fewOfPhrases: 1_000,
      /** Messages that one page looks at otherwise, before the next one goes on; the same for phrases. */
      looks: 4_000,
      looksForPhrases: 600,
      /**
       * Up to `fewPlaces` servers and channels of the caller are asked for together with the words. With more, what matches anywhere is looked
       * at first; if less than one in `strangers` of it stands where they may read, the index is asked for each place by itself.
       */
      strangers: 50,
      fewPlaces: 8,
      /** Servers and conversations that are looked through by their own lists where only places and dates are asked for, and messages of theirs at once. */
      places: 300,
      step: 500,
    },
    /** Searches for a part of a text in one channel. */
    texts: {
      /** Newest texts of a channel that are found before they are indexed. */
      tail: 100,
      /** Texts that are looked through by the first statement, the most in one, and in all. */
      first: 2_000,
      perStatement: 16_000,
      max: 64_000,
      /** Blocks of which it is looked whether they may have the pattern, in one statement and in all. */
      blocksPerStatement: 8_000,
      maxBlocks: 64_000,
    },
    turns: {
      /** A worker carries out one search of a user at a time: so many more may wait, of that user and of all users. */
      waitingOfOne: 3,
      maxWaiting: 100,
      /** What of a search was not begun after so long is refused; with its last statement it has to be in time for `http.answerTimeoutMs`. */
      withinMs: 2_500,
    },
  },

  pictures: {
    /**
     * Pictures that one job worker decodes and encodes at once, of different users: each takes a core, and up to about 200 MB of memory, seldom 300.
     * All but one of them may be long ones, which take more than two seconds.
     */
    maxConcurrent: 2,
    /** Uploads of a web worker that may wait for one, those of one user, and how long each waits before it is refused as "not now": less than `http.uploads.timeoutMs`. */
    maxWaiting: 200,
    maxWaitingPerUser: 60,
    withinMs: 20_000,
  },

  http: {
    /** JSON bodies; `maxValues`: keys and items at every depth together. Something of any body, of a file too, has to arrive within `timeoutMs`. */
    body: { maxBytes: 256 * 1024, maxDepth: 32, maxValues: 16_000, timeoutMs: 7_000 },
    uploads: {
      /** What forms with files that are not streamed in, emoji and stickers, may hold in the memory of one worker together; beyond it they are refused as "not now". */
      maxBytes: 64 * 1024 * 1024,
      /** The same for one user; for one address until it is known who asks. */
      maxBytesPerUser: 12 * 1024 * 1024,
      /** A form with a file has to be complete in this time; its file then has as long to be written. */
      timeoutMs: 60_000,
    },
    streams: {
      /** What files that are streamed in hold in the memory of one worker: of each what came with its head, until it is known whose it is. */
      maxBytes: 64 * 1024 * 1024,
      /** After that all of them pass through so much memory: while it is in use, senders wait. */
      bufferBytes: 16 * 1024 * 1024,
      /** How many of them that are longer than 128 KiB a worker takes at once, and of one user; the next is refused as "not now". */
      maxConcurrent: 1_000,
      maxPerUser: 3,
      /** A long file may take more time: a second for so many bytes of it, in or out. */
      minBytesPerSecond: 32 * 1024,
    },
    downloads: {
      /**
       * What answers of more than 64 KiB may hold together on their way out, files and JSON; beyond it they are refused as "not now". A page
       * of the documentation counts as 64 KiB, however long it is: all readers share its bytes.
       */
      maxBytes: 64 * 1024 * 1024,
      /** An IPv6 /56 or /48 gets a quarter of all at most, but never less than a /64. */
      maxBytesPerAddress: 16 * 1024 * 1024,
      /** A client that reads nothing of such an answer for so long, or less than `streams.minBytesPerSecond` after it, is cut off. */
      timeoutMs: 20_000,
    },
    /**
     * Of one address, or of one /64, on a worker: connections that it opens within 12 s, in which one without a request ends, and requests under
     * way. An IPv6 /56 has four times as many and a /48 sixteen times. Sockets of the gateway are counted there. `UNLIMITED_ADDRESSES` names addresses that these bounds leave out.
     */
    connections: { openedPerAddress: 2_000, requestsPerAddress: 500 },
    /** Pages of the documentation and their files that an address may ask of one worker: so many at once, and as many a minute. */
    pages: { requestsPerMinute: 240 },
    /**
     * Leases on rate limits: a worker takes up to so many requests of one user and route from their buckets in one call into Redis, and lets
     * them in within `leaseMs` without asking again. 0 in either: every request asks. It remembers how often the users of so many buckets ask.
     */
    limits: { leaseTokens: 16, leaseMs: 1_000, maxLeases: 20_000 },
    /** A password is hashed in this time after it was asked for, or not at all; the rest of the answer has to be in time, too. */
    hashTimeoutMs: 3_000,
    /**
     * From the whole request to its answer, whatever it waits for; after that it is refused as "not now". While a file is written, or is with
     * a job worker, the time does not run.
     */
    answerTimeoutMs: 4_400,
  },

  /**
   * PostgreSQL announces to every worker what operators say of the service, its state, blocked addresses and requests. A worker looks at it
   * then, and `restMs` after it last did; `lookEveryMs` after that while announcements do not arrive there, or a request is not answered.
   */
  service: { lookEveryMs: 500, restMs: 5_000 },

  /**
   * Log files of a host. The one that is written is put aside when it is larger or older than one may be, and zipped. What was put aside is
   * deleted when it is older than `keepMs`, or when all of it has more than `maxBytes`: the oldest first.
   */
  logs: {
    maxFileBytes: 16 * 1024 * 1024,
    maxFileAgeMs: 86_400_000,
    maxBytes: 256 * 1024 * 1024,
    keepMs: 30 * 86_400_000,
    lookEveryMs: 2_000,
    /** Requests of a worker that read log files at once, and how much of a file that somebody else has put there. */
    reads: { maxConcurrent: 2, maxBytes: 64 * 1024 * 1024, timeoutMs: 3_500 },
  },

  /** How often each worker writes how long requests took. It divides five minutes. */
  telemetry: { flushEveryMs: 10_000 },

  /**
   * Of DATABASE_REPLICA_URL. How far it is is looked at every `lookEveryMs`; it is asked while it has everything that was committed
   * `maxLagMs` ago, for pages of messages that are older than `oldMs` and for searches.
   */
  replica: { lookEveryMs: 500, maxLagMs: 3_000, oldMs: 60_000, readConnections: 4 },

  /** A statement that has no answer after `statementTimeoutMs` is given up, there and here. */
  storage: { readConnections: 6, statementTimeoutMs: 3_500, connectTimeoutMs: 3_000 },

  /** A command of the operator's waits longer than a request may: the machine is often busy when one is needed. */
  commandStorage: { readConnections: 1, statementTimeoutMs: 30_000, connectTimeoutMs: 15_000 },
}

export type ClusterConfig = typeof clusterConfig
