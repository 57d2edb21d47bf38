/**
 * How PostgreSQL finds what a large server's pages ask for: the statements as the storage makes
 * them, explained on the smallest and on the largest server. A page that is one range of an index
 * reads as many blocks in both.
 */
import postgres from "postgres"
import { auditLogStorage } from "../../src/storage/communities/audit-log.ts"
import { bansStorage } from "../../src/storage/communities/bans.ts"
import { guildMembersStorage } from "../../src/storage/communities/guild-members.ts"
import { invitesStorage } from "../../src/storage/communities/invites.ts"
import { serversStorage } from "../../src/storage/communities/servers.ts"
import type { Community, Fixture } from "./fixture.ts"

export interface PlanResult {
  readonly page: string
  readonly sizes: readonly {
    readonly members: number
    readonly rows: number
    /**
     * Blocks of 8 KiB looked at, in whichever plan takes more: one for these values, or one for
     * any.
     */
    readonly blocks: number
    readonly milliseconds: number
    /**
     * Indexes and tables that are read, and whether they are sorted then: `members_pkey,
     * users_pkey, Sort`.
     */
    readonly ways: string
  }[]
}

interface Node {
  "Node Type": string
  "Index Name"?: string
  "Relation Name"?: string
  "Actual Rows": number
  "Actual Loops": number
  "Actual Total Time": number
  "Shared Hit Blocks": number
  "Shared Read Blocks": number
  Plans?: Node[]
}

/** No server is too small for it. */
const pageSize = 50

const pages: Record<string, (sql: postgres.Sql, community: Community) => Promise<unknown>> = {
  "members, from the middle": (sql, { id, middle }) => guildMembersStorage(sql).page(id, middle, pageSize),
  "one member": (sql, { id, middle }) => serversStorage(sql).members(id, [middle]),
  "bans, from the start": (sql, { id }) => bansStorage(sql).list(id, "0", pageSize),
  invites: (sql, { id }) => invitesStorage(sql).list(id),
  "audit log, the newest": (sql, { id }) => auditLogStorage(sql).page(id, { limit: pageSize }),
  "audit log, of one action": (sql, { id }) =>
    auditLogStorage(sql).page(id, { limit: pageSize, action: "MEMBER_KICK" }),
  "audit log, by one who did nothing": (sql, { id, people }) =>
    auditLogStorage(sql).page(id, { limit: pageSize, user_id: people[1]!.id }),
  "a user's servers": (sql, { people }) => serversStorage(sql).ofUser(people[1]!.id),
  "a server's home as it wakes": (sql, { id }) => serversStorage(sql).load(id),
  "what a gateway worker needs of it": (sql, { id }) => serversStorage(sql).outlines([id]),
}

export async function benchPlans(
  databaseUrl: string,
  { communities }: Fixture,
  say: (what: string) => void,
): Promise<PlanResult[]> {
  say("plans of pages")
  let seen: { text: string; values: readonly unknown[] }[] = []
  const sql = postgres(databaseUrl, {
    max: 1,
    onnotice: () => undefined,
    debug: (_connection, text, values) => seen.push({ text, values: values as unknown[] }),
  })
  try {
    const results: PlanResult[] = []
    // Whatever is asked to begin with is asked now.
    await sql`SELECT 1`
    for (const [page, ask] of Object.entries(pages)) {
      const sizes: PlanResult["sizes"][number][] = []
      for (const community of [communities[0]!, communities.at(-1)!]) {
        seen = []
        await ask(sql, community)
        const asked = seen
        seen = []
        const plans = []
        for (const mode of ["force_custom_plan", "force_generic_plan"]) plans.push(await explained(sql, mode, asked))
        const worst = plans.toSorted((a, b) => b.blocks - a.blocks)[0]!
        sizes.push({ members: community.members, ...worst })
      }
      results.push({ page, sizes })
    }
    return results
  } finally {
    await sql.end({ timeout: 5 })
  }
}

export async function explained(
  sql: postgres.Sql,
  mode: string,
  asked: readonly { text: string; values: readonly unknown[] }[],
) {
  let [rows, blocks, milliseconds] = [0, 0, 0]
  const ways = new Set<string>()
  await sql.unsafe(`SET plan_cache_mode = ${mode}`).simple()
  for (const { text, values } of asked) {
    await sql.unsafe(`PREPARE explained AS ${text}`).simple()
    const literals = values.map(value =>
      value === null ? "NULL" : `'${String(value as string | number).replaceAll("'", "''")}'`,
    )
    const execute = `EXECUTE explained${literals.length > 0 ? `(${literals.join(", ")})` : ""}`
    // The second time everything is in memory and looked up.
    await sql.unsafe(execute).simple()
    const [row] = await sql.unsafe(`EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${execute}`).simple()
    await sql.unsafe("DEALLOCATE explained").simple()
    const said = row!["QUERY PLAN"] as string | [{ Plan: Node }]
    const [{ Plan: plan }] = typeof said === "string" ? (JSON.parse(said) as [{ Plan: Node }]) : said
    rows += plan["Actual Rows"]
    blocks += plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
    milliseconds += plan["Actual Total Time"]
    for (const way of waysOf(plan)) ways.add(way)
  }
  return { rows, blocks, milliseconds, ways: [...ways].join(", ") }
}

function waysOf(node: Node): string[] {
  const { "Node Type": type, "Index Name": index, "Relation Name": table } = node
  const own = index ?? (type.includes("Scan") && table ? `${type} ${table}` : type.includes("Sort") ? type : undefined)
  return [...(own === undefined ? [] : [own]), ...(node.Plans ?? []).flatMap(waysOf)]
}
