import { expect, test } from "vitest"
import { linkOf, mailText } from "./mail-texts.ts"

const link = linkOf("https://chat.example", "password_reset", "email.1.secret")

test("the token stands behind the #", () => {
  expect(link).toBe("https://chat.example/reset-password#email.1.secret")
  expect(linkOf("https://chat.example/sub", "verify_email", "t")).toBe("https://chat.example/sub/verify-email#t")
})

test("text and HTML name the server and hold the link", () => {
  for (const kind of ["verify_email", "password_reset", "restore_email"] as const) {
    const mail = mailText({ kind, serverName: "Starling", username: "ada", link })
    expect(mail.subject).toContain("Starling")
    for (const part of [mail.text, mail.html]) {
      expect(part).toContain("Hello ada,")
      expect(part).toContain(link)
    }
  }
})

test("a server's name begins no header and no element", () => {
  const serverName = 'Evil\r\nBcc: all@example.com\u2028<b onclick="x">&'
  const { subject, html } = mailText({ kind: "verify_email", serverName, username: "ada", link })
  expect(subject).toBe('Verify your e-mail address on Evil Bcc: all@example.com <b onclick="x">&')
  expect(html).not.toContain("<b o")
  expect(html).toContain("&lt;b onclick=&quot;x&quot;&gt;&amp;")
})
