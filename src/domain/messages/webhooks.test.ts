import { expect, test } from "vitest"
import { isPublicUrl } from "../core/public-addresses.ts"
import { loggedPath, webhookSecret, webhookToken } from "./webhooks.ts"

test.each([
  "https://cdn.example.com/a.png",
  "http://cdn.example.com:8080/a.png?x=1#y",
  "https://8.8.8.8/a",
  "https://172.15.255.255/",
  "https://172.32.0.1/",
  "https://169.253.1.1/",
  "https://[2606:4700::1111]/",
  "https://[2002:808:808::1]/",
  "https://mylocalhost.example/",
  "https://localhost.example.com/",
])("%s is everybody's", url => {
  expect(isPublicUrl(url)).toBe(true)
})

test.each([
  "http://localhost/",
  "http://LOCALHOST:8080/",
  "http://localhost./",
  "http://a.localhost/",
  "http://printer.local/",
  "http://metadata.google.internal/",
  "http://router.lan/",
  "http://router/",
  "http://127.0.0.1/",
  "http://127.1/",
  "http://127.0.0.1./",
  "http://2130706433/",
  "http://0x7f000001/",
  "http://0177.0.0.1/",
  "http://%31%32%37.0.0.1/",
  "http://１２７.0.0.1/",
  "http://0.0.0.0/",
  "http://10.0.0.1/",
  "http://100.64.0.1/",
  "http://172.16.0.1/",
  "http://172.31.255.255/",
  "http://192.168.178.1/",
  "http://169.254.169.254/latest/meta-data",
  "http://198.18.0.1/",
  "http://224.0.0.1/",
  "http://255.255.255.255/",
  "http://[::]/",
  "http://[::1]/",
  "http://[::127.0.0.1]/",
  "http://[::ffff:127.0.0.1]/",
  "http://[::ffff:a00:1]/",
  "http://[64:ff9b::10.0.0.1]/",
  "http://[2002:a00:1::]/",
  "http://[2001:0:53aa:64c::1]/",
  "http://[fc00::1]/",
  "http://[fd12:3456::1]/",
  "http://[fe80::1]/",
  "http://[ff02::1]/",
])("%s is a private network's", url => {
  expect(isPublicUrl(url)).toBe(false)
})

const secret = "a-Z_0".repeat(12).padEnd(64, "x")

test("a token is taken whole or by its secret alone, and only where it belongs", () => {
  expect(webhookToken("42", secret)).toBe(`webhook.42.${secret}`)
  expect(webhookSecret("42", webhookToken("42", secret))).toBe(secret)
  expect(webhookSecret("42", secret)).toBe(secret)
  const wrong = [
    webhookToken("43", secret),
    webhookToken("4", secret),
    `.42.${secret}`,
    `42.${secret}`,
    `bot.42.${secret}`,
    `webhook.42.${secret}x`,
    `${secret}x`,
    secret.slice(1),
    `${secret.slice(1)}.`,
    `${secret}\n`,
    "webhook.42.",
    "webhook.",
    "",
  ]
  for (const token of wrong) expect(webhookSecret("42", token)).toBeUndefined()
})

test("a path in a log does not show a webhook's token, wherever it stands", () => {
  const token = webhookToken("42", secret)
  expect(loggedPath(`/webhooks/42/${token}`)).toBe("/webhooks/42/{token}")
  expect(loggedPath(`/api/v1/webhooks/42/${secret}`)).toBe("/api/v1/webhooks/42/{token}")
  expect(loggedPath(`/api/v1/WEBHOOKS/x/${token}/more\n`)).toBe("/api/v1/WEBHOOKS/x/{token}")
  for (const path of ["/api/v1/webhooks/42", "/api/v1/webhooks/42/regenerate-token", "/api/v1/servers/42/webhooks"])
    expect(loggedPath(path)).toBe(path)
})
