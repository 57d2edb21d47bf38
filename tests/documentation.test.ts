import { readFileSync } from "node:fs"
import { send } from "./kit/exchange.ts"
import { expect, testWith } from "./kit/test.ts"

const publicUrl = "https://chat.example"
const test = testWith({ config: { PUBLIC_URL: publicUrl } })

const withoutServers = (document: object) => ({ ...document, servers: undefined })

test("the served interface description is the one in docs/, with this server's address", async ({ shared }) => {
  const { body, headers } = await send(shared.east, "/openapi.json")
  const served = body as { servers: { url: string }[] }
  const written = JSON.parse(readFileSync(new URL("../docs/openapi.json", import.meta.url), "utf8")) as object
  expect(withoutServers(served)).toEqual(withoutServers(written))
  expect(served.servers.map(({ url }) => url)).toEqual(["/", publicUrl])
  expect(headers.get("content-type")).toBe("application/json")
})

test("the pages bring everything they need from this server", async ({ shared }) => {
  for (const path of ["/docs", "/redoc", "/docs/oauth2-redirect"]) {
    const page = await send(shared.east, path)
    expect(page.status).toBe(200)
    expect(page.headers.get("content-type")).toMatch(/^text\/html/)
    expect(page.headers.get("content-security-policy")).toContain("default-src 'none'")
    const wanted = [...page.text.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, url]) => url!)
    expect(wanted.length).toBeGreaterThan(1)
    for (const url of wanted.filter(url => !url.startsWith("data:"))) {
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
