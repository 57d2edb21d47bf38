import { BaseSequencer, type TestSpecification } from "vitest/node"

/** Files that mostly wait, with the seconds that they take. One after the other, they leave the cores to those that compute. */
const waiting: Readonly<Record<string, number>> = {
  // For a job that another worker takes over half a minute after the one that had it was killed.
  "tests/process/interrupted-uploads.test.ts": 75,
  "tests/accounts/mail.test.ts": 22,
}
/** Others that take long: begun last, one of them would run alone in the end. */
const computing: Readonly<Record<string, number>> = {
  // First, though short: it collects garbage two dozen times, which is slow in a process that has run much.
  "src/gateway/state/session.test.ts": 140,
  "tests/gateway/resume.test.ts": 135,
  "tests/app/page.test.ts": 119,
  "tests/cluster/take-over.test.ts": 116,
  "tests/cluster/redis-cluster.test.ts": 107,
  "tests/gateway/barrier.test.ts": 102,
  "tests/process/processes.test.ts": 89,
  "tests/simulator/planted-bugs.test.ts": 84,
  "tests/process/embedded.test.ts": 82,
  "tests/cluster/redis-failover.test.ts": 71,
  "tests/process/start-up.test.ts": 71,
  "tests/cluster/hosts.test.ts": 57,
  "tests/operators/page.test.ts": 52,
  "tests/app/guarantees.test.ts": 51,
  "tests/service/operator.test.ts": 47,
  "tests/security/bad-input.test.ts": 41,
  "tests/process/long-run.test.ts": 40,
  "tests/process/stuck-workers.test.ts": 40,
  "tests/accounts/security-logout.test.ts": 39,
  "tests/simulator/histories.test.ts": 39,
  "tests/process/two-versions.test.ts": 38,
  "tests/security/authorization.test.ts": 37,
  "tests/cluster/redis-sentinel.test.ts": 35,
  "tests/messages/attachments.test.ts": 35,
  "tests/process/costs.test.ts": 35,
  "tests/app/offline.test.ts": 34,
  "tests/security/hostile-clients.test.ts": 34,
  "tests/process/backup.test.ts": 33,
  "tests/process/host-sockets.test.ts": 31,
  "tests/communities/automod.test.ts": 29,
  "tests/process/rolling-restart.test.ts": 29,
  "tests/contract/gates.test.ts": 28,
  "tests/gateway/client-package.test.ts": 27,
  "tests/service/server-state.test.ts": 27,
  "tests/social/relationships.test.ts": 27,
  "tests/accounts/avatars.test.ts": 26,
  "tests/gateway/guild-members.test.ts": 26,
  "tests/messages/thumbnails.test.ts": 26,
  "tests/app/sign-in.test.ts": 25,
  "tests/process/log-files.test.ts": 25,
  "tests/simulator/redis.test.ts": 25,
  "tests/accounts/account-deletion.test.ts": 24,
  "tests/app/firefox.test.ts": 23,
  "tests/messages/search.test.ts": 22,
  "tests/cluster/replica.test.ts": 21,
  "tests/contract/printed-code.test.ts": 20,
  "tests/process/image.test.ts": 20,
  "tests/process/proxies.test.ts": 20,
  "tests/security/auto-moderation-cost.test.ts": 20,
  "tests/security/rate-limits.test.ts": 20,
  "tests/accounts/oauth.test.ts": 19,
  "tests/chaos/presence.test.ts": 19,
  "tests/gateway/fat-events.test.ts": 19,
  "tests/messages/search-index.test.ts": 18,
  "tests/process/watching.test.ts": 18,
  "tests/cluster/shards.test.ts": 17,
  "tests/communities/emojis.test.ts": 17,
  "tests/messages/content.test.ts": 17,
  "tests/process/signals.test.ts": 17,
  "tests/gateway/ready-model.test.ts": 16,
  "tests/messages/deliveries.test.ts": 16,
  "tests/messages/upload-sessions.test.ts": 16,
  "tests/security/request-smuggling.test.ts": 16,
  "tests/app/voice.test.ts": 15,
  "tests/messages/mentions.test.ts": 15,
  "tests/social/directs.test.ts": 15,
  // Late, though long: until then the object store that it needs is built.
  "tests/messages/file-store.test.ts": 9,
}
/** After all others, in this order, with their seconds. */
const last = [
  // Six at once.
  "tests/process/dependencies-slow-redis.test.ts", // 115
  "tests/process/dependencies-slow-postgres.test.ts", // 115
  "tests/process/dependencies-redis.test.ts", // 85
  "tests/process/dependencies-postgres.test.ts", // 80
  "tests/social/presence.test.ts", // 70
  "tests/voice/voice.test.ts", // 60
  "tests/process/dependencies-files.test.ts", // 60
  "tests/communities/temporary-members.test.ts", // 30
  // Alone.
  "tests/chaos/chaos.test.ts", // 95
  "tests/chaos/chaos-systems.test.ts", // 45
  "tests/security/bad-neighbour/bad-neighbour.test.ts", // 65
]
const shortSeconds = 3
/** Workers that take what computes, while another one waits. */
const hands = 4

/** Begins every file when a worker would come to it if the seconds above were so. */
export class EvenLoad extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const secondsIn = (table: Readonly<Record<string, number>>, { moduleId }: TestSpecification) =>
      Object.entries(table).find(([name]) => moduleId.endsWith(name))?.[1]
    const begins = new Map<TestSpecification, number>()
    let waited = 0
    const rest: { file: TestSpecification; seconds: number }[] = []
    for (const file of files.toSorted((a, b) => (secondsIn(waiting, b) ?? 0) - (secondsIn(waiting, a) ?? 0))) {
      const place = last.findIndex(name => file.moduleId.endsWith(name))
      if (place >= 0) {
        begins.set(file, 1e6 + place)
        continue
      }
      const seconds = secondsIn(waiting, file)
      if (seconds === undefined) {
        rest.push({ file, seconds: secondsIn(computing, file) ?? shortSeconds })
        continue
      }
      begins.set(file, waited)
      waited += seconds
    }
    let computed = 0
    for (const { file, seconds } of rest.toSorted((a, b) => b.seconds - a.seconds)) {
      begins.set(file, computed)
      computed += seconds / hands
    }
    return files.toSorted((a, b) => begins.get(a)! - begins.get(b)!)
  }
}
