/** What deploy/ has for systemd, Kubernetes and compose: held against their own checkers, and against the program's settings. */
import { execFile } from "node:child_process"
import { access, cp, mkdir, mkdtemp, readFile, readdir, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { promisify } from "node:util"
import { expect, test as plain } from "vitest"
import { readConfig } from "../../src/config.ts"
import { requireCheckers, requirePrograms } from "../kit/companions.ts"

const run = promisify(execFile)
const deploy = join(import.meta.dirname, "../../deploy")

const test = plain.extend<{ folder: string }>({
  // oxlint-disable-next-line no-empty-pattern -- vitest reads the pattern
  folder: async ({}, use) => {
    const folder = await mkdtemp(join(tmpdir(), "starling-deploy-"))
    await use(folder)
    await rm(folder, { recursive: true })
  },
})

/** What a program says, whatever its exit code. */
const outcome = (program: string, args: readonly string[], env: Record<string, string> = {}) =>
  run(program, args, { env: { ...process.env, ...env }, maxBuffer: 16 * 1_048_576 }).then(
    ({ stdout, stderr }) => ({ code: 0, stdout, stderr }),
    (error: { code: number; stdout: string; stderr: string }) => error,
  )

test("systemd has nothing to say about the units, and finds the server hardly exposed", async ({ folder, skip }) => {
  await requirePrograms(skip, "systemd-analyze")
  const opt = join(folder, "opt")
  await mkdir(join(opt, "dist", "src"), { recursive: true })
  await cp(join(deploy, "healthcheck"), join(opt, "healthcheck"))
  await writeFile(join(folder, "starling.env"), "")
  const files = []
  for (const name of await readdir(join(deploy, "systemd"))) {
    const unit = (await readFile(join(deploy, "systemd", name), "utf8"))
      .replaceAll("/opt/starling", opt)
      .replaceAll("/usr/bin/node", process.execPath)
      .replaceAll("/etc/starling", folder)
    files.push(join(folder, name))
    await writeFile(join(folder, name), unit)
  }
  expect(files).toHaveLength(3)
  expect(await outcome("systemd-analyze", ["verify", ...files])).toEqual({ code: 0, stdout: "", stderr: "" })
  const file = join(folder, "starling.service")
  // 0 is nothing, 100 is everything that root may do; an ordinary service has 92.
  const words = ["security", "--offline=true", "--threshold=20", "--no-pager", file]
  expect((await outcome("systemd-analyze", words)).code).toBe(0)
  expect((await outcome("systemd-analyze", words.with(2, "--threshold=5"))).code).toBe(1)
})

/** Says what Helm's linter objects to, renders a chart with the values of a file, and says what it does with values that it does not know. */
const charts = `
import json, sys, yaml, helm_python as helm
chart, values = sys.argv[1:]
def render(values):
  with helm.Chart.load(chart) as c:
    return c.render(values, name="starling", namespace="chat")
def refused(values):
  try:
    render(values)
    with helm.Chart.load(chart) as c: c.validate_schema(values)
  except Exception as error: return str(error)
def text(made):
  return "".join("---\\n" + part.strip() + "\\n" for _, part in sorted(made.items()) if part.strip())
def docs(text): return [doc for doc in yaml.safe_load_all(text) if doc]
few, all = text(render({})), text(render(yaml.safe_load(open(values))))
print(json.dumps({"lint": helm.lint(chart), "few": few, "all": all, "docs": docs(all), "fewDocs": docs(few), "unknown": refused({"replicas": 3})}))
`
interface Rendered {
  lint: { total_charts_linted: number; messages: unknown[]; errors: unknown[] }
  few: string
  all: string
  docs: Manifest[]
  fewDocs: Manifest[]
  unknown: string | null
}
interface Manifest {
  kind: string
  apiVersion: string
  // oxlint-disable-next-line typescript/no-explicit-any -- whatever a kind has
  spec: any
}

test("Helm and Kubernetes have nothing to say about the chart, and the manifests are what it renders", async ({
  folder,
  skip,
}) => {
  const checkers = await requireCheckers(skip)
  const env = { PYTHONPATH: checkers }
  const chart = join(deploy, "helm", "starling")
  const values = join(deploy, "kubernetes", "values.yaml")
  const { stdout, stderr } = await outcome("python3", ["-c", charts, chart, values], env)
  const rendered = JSON.parse(stdout || JSON.stringify(stderr)) as Rendered
  // An icon, which it would like, has no use here.
  const told = rendered.lint.messages.filter(message => !/icon is recommended/.test(JSON.stringify(message)))
  expect(rendered.lint).toMatchObject({ total_charts_linted: 1, errors: [] })
  expect(told).toEqual([])
  expect(rendered.unknown).toMatch(/replicas/)
  const head =
    "# deploy/helm/starling with values.yaml, for those who have no Helm. Change the chart, then: npx vitest run -u deploy\n"
  await expect(head + rendered.all).toMatchFileSnapshot(join(deploy, "kubernetes", "starling.yaml"))

  // Of the Prometheus operator, of which Kubernetes itself knows nothing.
  const isOwn = (part: string) => !part.includes("apiVersion: monitoring.coreos.com")
  for (const [name, text] of Object.entries({ few: rendered.few, all: rendered.all })) {
    const file = join(folder, `${name}.yaml`)
    await writeFile(file, text.split(/^---$/m).filter(isOwn).join("---"))
    const words = ["-m", "kubernetes_validate", "--strict", file]
    expect(await outcome("python3", words, env)).toMatchObject({ code: 0 })
    // It does find what is wrong.
    await writeFile(
      file,
      (await readFile(file, "utf8")).replace("replicas:", "replicaz:").replace("maxSurge:", "maxSurch:"),
    )
    expect((await outcome("python3", words, env)).code).not.toBe(0)
  }
  const kinds = rendered.docs.map(({ kind }) => kind).toSorted()
  expect(kinds.join(" ")).toBe(
    "ConfigMap Deployment HorizontalPodAutoscaler Ingress NetworkPolicy PodDisruptionBudget Service ServiceMonitor",
  )
  for (const docs of [rendered.docs, rendered.fewDocs]) await suitsTheProgram(docs)
})

/** Names, ports and times are those of the program. */
async function suitsTheProgram(docs: readonly Manifest[]): Promise<void> {
  const of = (kind: string) => docs.find(each => each.kind === kind)?.spec
  const pod = of("Deployment").template.spec
  const [container] = pod.containers
  const env = Object.fromEntries(container.env.map(({ name, value }: { name: string; value: string }) => [name, value]))
  const { CONFIG_FILE: _, ...variables } = env
  const config = readConfig({ ...variables, DATABASE_URL: "postgres://db/starling", REDIS_URL: "redis://redis" })
  const ports = Object.fromEntries(
    container.ports.map(({ name, containerPort }: { name: string; containerPort: number }) => [name, containerPort]),
  )
  expect(ports).toEqual({ http: config.port, metrics: config.metricsPort })
  // Variables of a service named starling would stop the start.
  expect(() => readConfig({ STARLING_PORT: "tcp://10.1.2.3:80" })).toThrow()
  expect(pod).toMatchObject({ enableServiceLinks: false, securityContext: { runAsNonRoot: true } })
  expect(container.securityContext).toMatchObject({ readOnlyRootFilesystem: true, allowPrivilegeEscalation: false })
  expect(pod.terminationGracePeriodSeconds).toBeGreaterThanOrEqual(Number(env["DRAIN_GRACE"]) + 30)
  const scaler = of("HorizontalPodAutoscaler")
  expect(of("Deployment").replicas === undefined).toBe(scaler !== undefined)
  const metrics = await readFile(new URL("../../src/observability/metrics.ts", import.meta.url), "utf8")
  if (scaler) expect(metrics).toContain(`"${scaler.metrics[0].pods.metric.name as string}"`)
  const monitor = of("ServiceMonitor")
  if (monitor)
    expect(of("Service").ports.map(({ name }: { name: string }) => name)).toContain(monitor.endpoints[0].port)
}

interface Composed {
  services: Record<
    string,
    {
      image: string
      hostname?: string
      environment?: Record<string, string>
      networks: Record<string, { ipv4_address?: string } | null>
      volumes?: { type: string; source: string; target: string }[]
      ports?: { published: string; host_ip?: string }[]
      read_only?: boolean
    }
  >
}

test("compose takes its file, whose hosts, proxy and scraper fit together", async ({ folder, skip }) => {
  const checkers = await requireCheckers(skip)
  await requirePrograms(skip, "caddy")
  const words = ["-f", join(deploy, "compose", "compose.yaml"), "--env-file", join(deploy, "compose", "example.env")]
  const program = join(checkers, "bin", "docker-compose")
  const said = await outcome(program, [...words, "config", "--format", "json"], { PYTHONPATH: checkers })
  expect(said).toMatchObject({ code: 0, stderr: "" })
  const { services } = JSON.parse(said.stdout) as Composed
  for (const { volumes = [], image } of Object.values(services)) {
    expect(image).toMatch(/:[\w.]+$/)
    for (const { type, source } of volumes) if (type === "bind") await access(source)
  }
  const hosts = Object.entries(services).filter(([name]) => name.startsWith("starling-"))
  expect(hosts.map(([name, { hostname }]) => name === hostname)).toEqual([true, true])
  const config = readConfig(hosts[0]![1].environment!)
  expect(config.trustedProxies).toEqual([services["caddy"]!.networks["front"]!.ipv4_address])
  for (const [, { read_only, volumes, ports }] of hosts) {
    expect({ read_only, ports }).toEqual({ read_only: true })
    expect(config.files.place).toEqual({ kind: "folder", path: volumes![1]!.target })
  }
  // Only TLS is open to everybody.
  const open = Object.values(services).flatMap(({ ports = [] }) => ports.filter(port => port.host_ip !== "127.0.0.1"))
  expect(open.map(({ published }) => published)).toEqual(["80", "443"])

  const prometheus = await readFile(join(deploy, "compose", "prometheus.yml"), "utf8")
  const rules = await readFile(join(deploy, "prometheus", "rules.yml"), "utf8")
  for (const [, job] of rules.matchAll(/job=\\?"(\w+)/g)) expect(prometheus).toContain(`job_name: ${job}\n`)
  for (const [name] of hosts) expect(prometheus).toContain(`${name}:${config.metricsPort}`)
  const lines = (text: string) => text.split("\n").filter(line => !line.startsWith("#"))
  const own = await readFile(join(deploy, "proxies", "Caddyfile"), "utf8")
  const here = await readFile(join(deploy, "compose", "Caddyfile"), "utf8")
  expect(lines(here)).toEqual(
    lines(
      own
        .replace("chat.example.org", "{$SITE}")
        .replace("10.0.0.11:8000 10.0.0.12:8000", hosts.map(([name]) => `${name}:${config.port}`).join(" ")),
    ),
  )
  const caddy = ["adapt", "--config", join(deploy, "compose", "Caddyfile"), "--adapter", "caddyfile"]
  expect(await outcome("caddy", caddy, { SITE: "chat.example.org", HOME: folder })).toMatchObject({ code: 0 })
})
