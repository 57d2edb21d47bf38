import { readFileSync } from "node:fs"
import type { AsyncApiDocument } from "../../src/apidocs/asyncapi.ts"
import { digestOf } from "../../scripts/interface-digest.ts"
import { send } from "../kit/exchange.ts"
import { expect, testWith } from "../kit/test.ts"

const publicUrl = "https://chat.example"
const test = testWith({ config: { PUBLIC_URL: publicUrl } })

interface Digests {
  openapi: { sha256: string; routes: number; schemas: number }
  asyncapi: { sha256: string; events: number; schemas: number }
}
const kept = JSON.parse(readFileSync(new URL("../../docs/api/interfaces.json", import.meta.url), "utf8")) as Digests

test("the served interface description is the one whose digest is in docs/, with this server's address", async ({
  shared,
}) => {
  const { body, headers } = await send(shared.east, "/openapi.json")
  const served = body as { servers: { url: string }[]; components: { schemas: object } }
  expect(digestOf(served)).toBe(kept.openapi.sha256)
  expect(Object.keys(served.components.schemas)).toHaveLength(kept.openapi.schemas)
  expect(served.servers.map(({ url }) => url)).toEqual(["/", publicUrl])
  expect(headers.get("content-type")).toBe("application/json")
})

test("the served description of the gateway is the one whose digest is in docs/, with this server's address", async ({
  shared,
}) => {
  const { body, headers } = await send(shared.east, "/asyncapi.json")
  const served = body as { asyncapi: string; servers: Record<string, { host: string; protocol: string }> }
  expect(served.asyncapi).toBe("3.0.0")
  expect(digestOf(served)).toBe(kept.asyncapi.sha256)
  expect(served.servers["public"]).toMatchObject({ host: "chat.example", protocol: "wss" })
  expect(headers.get("content-type")).toBe("application/json")
})

test("the page about the gateway runs no script and shows all of its document", async ({ shared }) => {
  const { components } = (await send(shared.east, "/asyncapi.json")).body as AsyncApiDocument
  const page = await send(shared.west, "/docs/gateway")
  expect(page.text).not.toMatch(/<script|style=|<[^>]*\son\w+=/)
  expect(page.headers.get("content-security-policy")).not.toContain("script-src")
  const anchors = new Set([...page.text.matchAll(/ id="([^"]+)"/g)].map(([, id]) => id!))
  for (const key of Object.keys(components.messages)) expect(anchors).toContain(key)
  for (const name of Object.keys(components.schemas)) expect(anchors).toContain(`type-${name}`)
  for (const [, target] of page.text.matchAll(/href="#([^"]+)"/g)) expect(anchors).toContain(target)
  expect((await send(shared.east, "/docs")).text).toContain('href="/docs/gateway"')
})

test("the pages bring everything they need from this server", async ({ shared }) => {
  for (const path of ["/docs", "/docs/gateway", "/redoc", "/docs/oauth2-redirect"]) {
    const page = await send(shared.east, path)
    expect(page.status).toBe(200)
    expect(page.headers.get("content-type")).toMatch(/^text\/html/)
    expect(page.headers.get("content-security-policy")).toContain("default-src 'none'")
    const wanted = [...page.text.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, url]) => url!)
    expect(wanted.length).toBeGreaterThan(1)
    for (const url of wanted.filter(url => !/^(data:|#)/.test(url))) {
      expect(url).toMatch(/^\//)
      const asset = await send(shared.west, url)
      expect({ url, status: asset.status }).toEqual({ url, status: 200 })
      expect(asset.text.length).toBeGreaterThan(10)
    }
  }
})

test("a page that is known is not sent again", async ({ shared }) => {
  const { headers } = await send(shared.east, "/docs")
  const etag = headers.get("etag")!
  for (const tag of [etag, `W/${etag}`, `"other", ${etag}`]) {
    const again = await send(shared.west, "/docs", { headers: { "if-none-match": tag } })
    expect(again).toMatchObject({ status: 304, text: "" })
  }
  expect((await send(shared.west, "/docs", { headers: { "if-none-match": '"other"' } })).status).toBe(200)
})
