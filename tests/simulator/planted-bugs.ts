/**
 * Bugs of the kinds that promises exist for, as changes to the program's own text. The simulator must find each of them;
 * what it cannot find it does not check. `find` stands exactly once in its file.
 */
export interface PlantedBug {
  readonly name: string
  readonly file: string
  readonly find: string
  readonly replace: string
  /** The promises of which the breach may be one; several, because one hole has many sides. */
  readonly promises: readonly string[]
  /** Where it shows early. Other seeds find it later. */
  readonly seed?: number
}

export const plantedBugs: readonly PlantedBug[] = [
  {
    name: "the answer goes out before the commit",
    file: "src/runtime/commit-queue.ts",
    find: `        await lane.commit({`,
    replace: `        for (const turn of turns) turn.resolve(turn.reply)\n        await lane.commit({`,
    promises: ["P1"],
    seed: 2,
  },
  {
    name: "events go out before the commit",
    file: "src/runtime/commit-queue.ts",
    find: `        await lane.commit({`,
    replace: `        this.#options.publisher.publish(rows, () => {})\n        await lane.commit({`,
    promises: ["P2", "P3", "P5"],
  },
  {
    // The other way round nobody would notice: the next row finds its number taken, and the shard is opened anew.
    name: "a commit without an answer counts as done",
    file: "src/runtime/commit-queue.ts",
    find: `        const written = await wasWritten(outbox[0]!.shard, outbox[0]!.number)`,
    replace: `        const written = true as boolean`,
    promises: ["P1", "P2", "P5", "P8", "P12"],
    seed: 29,
  },
  {
    name: "a home is not loaded anew after its turn failed",
    file: "src/runtime/commit-queue.ts",
    find: `    for (const turn of turns) {\n      dropHome(turn.home)`,
    replace: `    for (const turn of turns) {`,
    promises: ["P1", "P2", "P5", "P8", "P18"],
    seed: 3,
  },
  {
    name: "a new owner does not publish what it inherits",
    file: "src/runtime/shard-balancer.ts",
    find: `outbox.republish(shard, mine)`,
    replace: `void outbox`,
    promises: ["P5"],
  },
  {
    name: "a new owner forgets the last id of the one before",
    file: "src/runtime/shard.ts",
    find: `inheritance.lastId === undefined ? { ms: 0, sequence: 0 } : markOf(inheritance.lastId)`,
    replace: `({ ms: 0, sequence: 0 })`,
    promises: ["P2", "P3", "P5"],
    seed: 4,
  },
  {
    name: "an owner that has handed a shard over goes on with it",
    file: "src/runtime/shard-balancer.ts",
    find: `    for (const shard of shards) host.removeShard(shard)\n    this.#tell(rows)`,
    replace: `    for (const shard of shards) shard.closing = false\n    this.#tell(rows)`,
    promises: ["P2", "P3", "P5", "P7", "P8", "P18"],
    seed: 20,
  },
  {
    name: "an event is lost on its way to a log",
    file: "src/runtime/outbox.ts",
    find: `        if (row.number <= before) continue`,
    replace: `        if (row.number <= before || row.number % 5 === 4) continue`,
    promises: ["P5"],
  },
  {
    name: "two pieces of the log change places",
    file: "src/gateway/fan-out/stream.ts",
    find: `for (const item of items) this.#waiting.push(item)`,
    replace: `for (const item of items.toReversed()) this.#waiting.push(item)`,
    promises: ["P3", "P5"],
  },
  {
    name: "what another log gave already is given again",
    file: "src/gateway/replay/catch-up-reader.ts",
    find: `return cut !== undefined && number <= cut`,
    replace: `return cut === undefined && number < 0`,
    promises: ["P2"],
  },
  {
    name: "who has left is not taken off the stream",
    file: "src/gateway/replay/catch-up-reader.ts",
    find: `if (control.user === session.user) this.#lose(session, control.server, s, s <= session.repeatedUntil)`,
    replace: `void session`,
    promises: ["P12", "P13", "P5"],
  },
  {
    name: "a logout does not reach the gateway",
    file: "src/actors/accounts/sign-in.ts",
    find: `    disconnected(user, session), // on the gateway`,
    replace: ``,
    promises: ["P12", "P14"],
  },
  {
    name: "a session that could not come back for a moment is forgotten",
    file: "src/gateway/sessions/session-claims.ts",
    find: `error instanceof LogTruncated ? records.forget`,
    replace: `error instanceof Error ? records.forget`,
    promises: ["P6"],
  },
  {
    name: "interest is not written down",
    file: "src/runtime/outbox.ts",
    find: `if (list.length > 0) await interests.add(shard, list)`,
    replace: `if (list.length > 1_000) await interests.add(shard, list)`,
    promises: ["P5", "P14"],
  },
  {
    name: "jobs are confirmed and not added",
    file: "src/runtime/outbox.ts",
    find: `[this.#untilDone("adding a job", () => this.#options.targets.addJob(jobOf(item)))]`,
    replace: `[jobOf(item) && Promise.resolve()]`,
    promises: ["P15"],
    seed: 8,
  },
  {
    name: "owners are not told that a user's last session has gone",
    file: "src/gateway/fan-out/home-subscriptions.ts",
    find: `        .releaseUsers(shard, users)`,
    replace: `        .releaseUsers(shard, [])`,
    promises: ["P14"],
  },
  {
    name: "a shard's next owner does not look at who is there",
    file: "src/actors/social/presences.ts",
    find: `    for (const home of shard.interests.keys()) this.#look(home)`,
    replace: `    void shard.interests`,
    promises: ["P14"],
  },
]
