import { createHash } from "node:crypto"
import { existsSync } from "node:fs"
import { readFile } from "node:fs/promises"
import { createRequire } from "node:module"
import { basename } from "node:path"
import { setImmediate } from "node:timers/promises"
import type { AsyncApiDocument } from "../apidocs/asyncapi.ts"
import type { OpenApiDocument } from "../apidocs/openapi.ts"
import { pages } from "../contract/pages.ts"
import { escaped, gatewayPage, gatewayStyle } from "./gateway-page.ts"
import type { Page, Pages, PageSource } from "./pages.ts"

/**
 * The pages that show the interface: Swagger UI under `/docs`, Redoc under `/redoc`, both from
 * local files, and the gateway under `/docs/gateway`, which is our own. Redoc stays at 2.x: 3.x
 * needs Node 22 and reports to its maker. Of each package only the finished bundle is served.
 */

/**
 * A file of one of the two packages. The build copies them beside this module, so that what is
 * built needs neither package; from source they are read where they are installed.
 */
async function packageFile(path: string): Promise<Buffer> {
  const copy = new URL(`./vendor/${basename(path)}`, import.meta.url)
  return readFile(existsSync(copy) ? copy : createRequire(import.meta.url).resolve(path))
}

const javascript = "text/javascript; charset=utf-8"
const css = "text/css; charset=utf-8"

/** The inline styles that Redoc makes, by hash. */
const redocStyles = [
  // styled-components opens an empty <style> and fills it through the CSSOM.
  "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='",
  // The scroll bars of redoc 2.5.4. With another version the browser's console names the new hash.
  "'sha256-QMIg+bpjm3JdElJ388KYke01izlUW0UoNOeKjpMxdgc='",
].join(" ")

/**
 * No inline script, nothing from elsewhere. Requests may go to the servers that the document names
 * ("Try it out").
 */
function contentSecurityPolicy(servers: readonly string[]): string {
  return [
    "default-src 'none'",
    "script-src 'self'",
    `style-src 'self' ${redocStyles}`,
    "img-src 'self' data:",
    `connect-src ${["'self'", ...servers].join(" ")}`,
    // Redoc searches in a worker that it makes itself.
    "worker-src blob:",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'self'",
  ].join("; ")
}

const swaggerStart = `
SwaggerUIBundle({
  url: "/openapi.json",
  dom_id: "#page",
  deepLinking: true,
  displayRequestDuration: true,
  filter: true,
  defaultModelsExpandDepth: 0,
  // The default sends the document to a validator on the internet.
  validatorUrl: null,
  oauth2RedirectUrl: location.origin + "/docs/oauth2-redirect",
})
`

const swaggerStyle = `
body { margin: 0; background: #fafafa }
.swagger-ui .info { margin: 30px 0 }
.swagger-ui .scheme-container { padding: 16px 0 }
.links { display: flex; gap: 1.5rem; padding: .8rem 1.5rem; font: 15px system-ui, sans-serif; background: #fff; border-bottom: 1px solid #e4e7ec }
.links a { color: #1a5fb4; text-decoration: none }
`

const swaggerLinks = (hasRedoc: boolean) =>
  `<nav class="links"><b>REST</b> <a href="/docs/gateway">Gateway</a>${hasRedoc ? ' <a href="/redoc">Reference</a>' : ""} <a href="/openapi.json">openapi.json</a></nav>
`

/** A page that runs nothing and talks to nobody. */
const scriptless =
  "default-src 'none'; style-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"

const redocStart = `
Redoc.init(
  "/openapi.json",
  {
    expandResponses: "200",
    hideDownloadButton: false,
    nativeScrollbars: true,
    requiredPropsFirst: true,
    theme: {
      typography: {
        fontFamily: "system-ui, sans-serif",
        headings: { fontFamily: "system-ui, sans-serif" },
        code: { fontFamily: "ui-monospace, monospace" },
      },
    },
  },
  document.getElementById("page"),
)
`

const redocStyle = `
body { margin: 0 }
`

// Redoc's menu ends in a picture that would be fetched from its maker; an empty one stands in for
// it.
const withoutRemotePicture = (redoc: Buffer) =>
  redoc
    .toString()
    .replace(
      "https://cdn.redoc.ly/redoc/logo-mini.svg",
      "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' width='1' height='1'/%3E",
    )

interface DocumentationOptions {
  /** Gives way to others after each of its steps. */
  openapi: () => Generator<void, OpenApiDocument>
  asyncapi: () => AsyncApiDocument
  title: string
  /**
   * Whether there are pages for people: under `/docs`, and Redoc. The documents themselves are
   * always served.
   */
  docs?: boolean
  redoc?: boolean
}

/**
 * The pages of the documentation. The documents are made and the files read when somebody first
 * asks for any of them: most workers are never asked, and it would be a fifth of their start.
 */
export function documentationPages(options: DocumentationOptions): Pages {
  const { docs = true, redoc = true } = options
  let made: Promise<Map<string, Page>> | undefined
  const find: PageSource = async path => (await (made ??= makePages(options))).get(path)
  return {
    openapi: find,
    asyncapi: find,
    robots: find,
    ...(docs && { docs: find, docsRedirect: find, docsGateway: find }),
    ...(redoc && { redoc: find }),
    ...((docs || redoc) && { docsAssets: find }),
  }
}

const assets = pages.docsAssets.path.replace(/\/:name$/, "")

async function makePages({
  openapi: openapiSteps,
  asyncapi: makeAsyncapi,
  title,
  docs = true,
  redoc: hasRedoc = true,
}: DocumentationOptions): Promise<Map<string, Page>> {
  const openapi = await inPeace(openapiSteps())
  const asyncapi = makeAsyncapi()
  const made = new Map<string, Page>()

  const add = (path: string, contentType: string, content: string | Buffer, headers: Record<string, string>) => {
    const body = Buffer.from(content)
    made.set(path, { contentType, body, headers, etag: `"${digest(body)}"` })
  }

  /**
   * Adds a file whose name tells its content, so that it is fetched once and for all. Returns its
   * path.
   */
  const asset = (name: string, contentType: string, content: string | Buffer) => {
    const path = `${assets}/${name.replace(/(?=\.\w+$)/, `.${digest(content).slice(0, 10)}`)}`
    add(path, contentType, content, { "Cache-Control": "public, max-age=31536000, immutable" })
    return path
  }

  const html = (
    path: string,
    heading: string,
    { scripts, styles, text = "", links = "" }: { scripts: string[]; styles: string[]; text?: string; links?: string },
  ) =>
    add(
      path,
      "text/html; charset=utf-8",
      `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escaped(heading)}</title>
<link rel="icon" href="data:,">
${styles.map(style => `<link rel="stylesheet" href="${style}">`).join("\n")}
</head>
<body>
${links}<div id="page">${text}</div>
<noscript>This page needs JavaScript. The interface is described in <a href="/openapi.json">openapi.json</a>.</noscript>
${scripts.map(script => `<script src="${script}"></script>`).join("\n")}
</body>
</html>
`,
      { "Cache-Control": "no-cache", "Content-Security-Policy": policy },
    )

  const policy = contentSecurityPolicy(
    openapi.servers.filter(server => URL.canParse(server.url)).map(server => new URL(server.url).origin),
  )

  add(pages.openapi.path, "application/json", JSON.stringify(openapi), { "Cache-Control": "no-cache" })
  add(pages.asyncapi.path, "application/json", JSON.stringify(asyncapi), { "Cache-Control": "no-cache" })
  // Nothing here is for search engines.
  for (const path of ["/robots.txt", "/api/v1/robots.txt"])
    add(path, "text/plain; charset=utf-8", "User-agent: *\nDisallow: /\n", { "Cache-Control": "public, max-age=86400" })

  if (docs) {
    const swagger = asset("swagger-ui-bundle.js", javascript, await packageFile("swagger-ui-dist/swagger-ui-bundle.js"))
    const swaggerLook = asset("swagger-ui.css", css, await packageFile("swagger-ui-dist/swagger-ui.css"))
    html(pages.docs.path, `${title}: REST interface`, {
      scripts: [swagger, asset("docs.js", javascript, swaggerStart)],
      styles: [swaggerLook, asset("docs.css", css, swaggerStyle)],
      links: swaggerLinks(hasRedoc),
    })

    // Where an authorization server sends the browser back to; the script hands the answer to the
    // window of /docs.
    const redirect = asset("oauth2-redirect.js", javascript, await packageFile("swagger-ui-dist/oauth2-redirect.js"))
    html(pages.docsRedirect.path, `${title}: authorization`, {
      scripts: [redirect],
      styles: [],
      text: "This window hands the authorization to the page that asked for it.",
    })
    add(
      pages.docsGateway.path,
      "text/html; charset=utf-8",
      gatewayPage(asyncapi, asset("gateway.css", css, gatewayStyle), hasRedoc),
      {
        "Cache-Control": "no-cache",
        "Content-Security-Policy": scriptless,
      },
    )
  }

  if (hasRedoc) {
    const redoc = asset(
      "redoc.standalone.js",
      javascript,
      withoutRemotePicture(await packageFile("redoc/bundles/redoc.standalone.js")),
    )
    html(pages.redoc.path, `${title}: REST reference`, {
      scripts: [redoc, asset("redoc.js", javascript, redocStart)],
      styles: [asset("redoc.css", css, redocStyle)],
    })
  }
  return made
}

/** Requests are answered between the steps. */
async function inPeace<Result>(steps: Generator<void, Result>): Promise<Result> {
  for (;;) {
    const { done, value } = steps.next()
    if (done) return value
    await setImmediate()
  }
}

const digest = (content: string | Buffer) => createHash("sha256").update(content).digest("hex").slice(0, 32)
