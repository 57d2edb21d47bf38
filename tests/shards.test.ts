import { sharedServer } from "./kit/seeds.ts"
import { expect, test } from "./kit/test.ts"
test("debug G3", { timeout: 60000 }, async ({ cluster }) => {
  const workers = await cluster.boot(2)
  const { ada, channel } = await cluster.seed(sharedServer)
  let acked = 0, going = true
  const outcomes: Record<string, number> = {}
  const clients = Array.from({ length: 8 }, async (_, c) => {
    for (let n = 0; going; n++) {
      const t = performance.now()
      try { await ada.on(workers[(c + n) % 2]!).createMessage({ channel_id: channel.id, content: `${c}:${n}`, nonce: `${c}:${n}` }); acked++ }
      catch (e: any) { const k = `${e.status} ${e.body?.error?.reason ?? e.message} ${e.cause?.code ?? ""}`; outcomes[k] = (outcomes[k] ?? 0) + 1 }
      if (performance.now() - t > 1000) console.log("slow", c, n, performance.now() - t)
    }
  })
  for (let i = 0; i < 10; i++) {
    await cluster.sql`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE '% lane 0'`
    const before = acked, t = performance.now()
    while (acked < before + 20 && performance.now() - t < 8000) await new Promise(r => setTimeout(r, 10))
    console.log(i, acked - before, Math.round(performance.now() - t), JSON.stringify(outcomes), workers.map(w => w.over), (await Promise.all(workers.map(async w => ((await w.metrics.registry.getMetricsAsJSON()) as any[]).filter(m => /lanes_(unk|ref|guil)/.test(m.name)).map(m => m.values[0].value)))).join(" | "))
    if (acked < before + 20) { console.log(await cluster.sql`SELECT application_name, state, wait_event, left(query, 60) AS q FROM pg_stat_activity WHERE datname = current_database()`); break }
  }
  going = false
  await Promise.all(clients)
  console.log((cluster as any).takeErrors?.())
})
