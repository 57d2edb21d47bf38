/**
 * The image without an engine for images: what the Dockerfile says is done in folders, and what they hold is started in
 * namespaces of its own, as the user and with the read-only root that the image is for. /usr and /etc are this machine's.
 */
import { execFile, spawn } from "node:child_process"
import { once } from "node:events"
import { cp, mkdir, readFile, stat, symlink, writeFile } from "node:fs/promises"
import { dirname, join, posix, relative } from "node:path"
import type { Readable } from "node:stream"
import { promisify } from "node:util"

const run = promisify(execFile)
const project = join(import.meta.dirname, "../..")

interface Stage {
  readonly from: string
  readonly name: string
  readonly steps: (readonly [instruction: string, rest: string])[]
}

/** What a container of a stage starts with. */
export interface Image {
  readonly folder: string
  readonly base: string
  readonly env: Record<string, string>
  readonly workdir: string
  readonly user: string
  readonly command: readonly string[]
  readonly healthcheck: readonly string[]
  /** Debian packages that it installs; their programs are this machine's here. */
  readonly packages: readonly string[]
}

/** A line of the file that is not understood is an error: nothing in it goes untried. */
export async function parseDockerfile(file: string): Promise<Stage[]> {
  const text = (await readFile(file, "utf8")).replaceAll(/^#.*\n/gm, "").replaceAll(/\\\n\s*/g, "")
  const stages: Stage[] = []
  for (const line of text.split("\n").filter(each => each.trim() !== "")) {
    const [, instruction, rest] = /^([A-Z]+) (.+)$/.exec(line) ?? []
    if (instruction === "FROM") {
      const [, from, name] = /^(\S+) AS (\S+)$/.exec(rest!)!
      stages.push({ from: from!, name: name!, steps: [] })
    } else if (instruction) stages.at(-1)!.steps.push([instruction, rest!])
    else throw new Error(`not understood: ${line}`)
  }
  return stages
}

/** Makes the folders of all stages. @param node the program of the base image */
export async function buildImages(stages: readonly Stage[], folder: string, node: string): Promise<Map<string, Image>> {
  const ignored = (await readFile(join(project, ".dockerignore"), "utf8")).trim().split("\n")
  await writeFile(join(folder, "passwd"), users)
  const images = new Map<string, Image>()
  for (const { from, name, steps } of stages) {
    const parent = images.get(from)
    const at = join(folder, name)
    if (parent) await cp(parent.folder, at, { recursive: true, verbatimSymlinks: true })
    else await makePlaces(at, node)
    let image: Image = parent
      ? { ...parent, folder: at }
      : { folder: at, base: from, env: {}, workdir: "/", user: "0:0", command: [], healthcheck: [], packages: [] }
    for (const [instruction, rest] of steps) image = await step(image, instruction, rest, { images, ignored, node })
    images.set(name, image)
  }
  return images
}

interface Around {
  readonly images: ReadonlyMap<string, Image>
  readonly ignored: readonly string[]
  readonly node: string
}

async function step(image: Image, instruction: string, rest: string, around: Around): Promise<Image> {
  const inside = (path: string) => join(image.folder, posix.resolve(image.workdir, path))
  switch (instruction) {
    case "WORKDIR":
      await mkdir(inside(rest), { recursive: true })
      return { ...image, workdir: posix.resolve(image.workdir, rest) }
    case "ENV":
      return { ...image, env: { ...image.env, ...Object.fromEntries(rest.split(" ").map(pair => pair.split("="))) } }
    case "USER":
      return { ...image, user: rest }
    case "CMD":
      return { ...image, command: [...entry(image), ...(JSON.parse(rest) as string[])] }
    case "ENTRYPOINT":
      return { ...image, command: JSON.parse(rest) as string[] }
    case "HEALTHCHECK":
      return { ...image, healthcheck: JSON.parse(/ CMD (.*)$/.exec(rest)![1]!) as string[] }
    case "VOLUME":
      await mkdir(inside(rest), { recursive: true })
      return image
    case "EXPOSE":
      return image
    case "ARG":
      // Nobody gives it here, and it has no value of its own.
      if (rest.includes("=")) throw new Error("ARG with a value is not understood")
      return image
    case "COPY":
      await copy(rest, inside, around)
      return image
    case "RUN":
      return runStep(image, rest, around)
    default:
      throw new Error(`${instruction} is not understood`)
  }
}

const entry = ({ command }: Image) => (command.at(-1) === "--" ? command : [])

async function copy(rest: string, inside: (path: string) => string, { images, ignored }: Around): Promise<void> {
  const words = rest.split(" ")
  const [, stage] = /^--from=(.*)$/.exec(words[0]!) ?? []
  const paths = stage === undefined ? words : words.slice(1)
  const target = paths.pop()!
  const top = stage === undefined ? project : images.get(stage)!.folder
  const isIgnored = (file: string) => {
    const path = relative(project, file)
    return ignored.some(each => path === each || (each.startsWith("*") && path.endsWith(each.slice(1))))
  }
  for (const path of paths) {
    const from = join(top, path)
    if (stage === undefined && isIgnored(from)) throw new Error(`${path} is in .dockerignore`)
    // Of a folder the contents are copied; a file goes into a folder that is named with a slash.
    const isFolder = (await stat(from)).isDirectory()
    const to = isFolder || !/(?:\/|^\.)$/.test(target) ? inside(target) : join(inside(target), posix.basename(path))
    await mkdir(dirname(to), { recursive: true })
    const filter = stage === undefined ? (file: string) => !isIgnored(file) : () => true
    await cp(from, to, { recursive: true, verbatimSymlinks: true, filter })
  }
}

/** What needs a network, or to be root, is done in another way; everything else is run as it stands. */
async function runStep(image: Image, rest: string, { node }: Around): Promise<Image> {
  const [, owned] = /^install -d -o node -g node ([/\w ]+)$/.exec(rest) ?? []
  if (owned !== undefined) {
    for (const path of owned.split(" ")) await mkdir(join(image.folder, path), { recursive: true })
    return image
  }
  const [, names] = /^apt-get update && apt-get install -y --no-install-recommends (.*) && rm -rf \S+$/.exec(rest) ?? []
  if (names !== undefined) return { ...image, packages: [...image.packages, ...names.split(" ")] }
  if (/^npm ci --include=dev( --no-\w+)*$/.test(rest)) {
    await mkdir(join(image.folder, image.workdir, "node_modules"))
    return image
  }
  const modules = ["--ro-bind", join(project, "node_modules"), posix.join(image.workdir, "node_modules")]
  const root = ["--bind", image.folder, "/", ...surroundings(node), ...modules, "--unshare-net"]
  await run("bwrap", [...root, "--chdir", image.workdir, "bash", "-c", rest], { env: environment(image, node) })
  return image
}

const places = ["usr", "etc", "proc", "dev", "tmp"]
const links = ["bin", "sbin", "lib", "lib64"]

/** Where this machine's own is put: a root that is read-only takes no new names. */
async function makePlaces(folder: string, node: string): Promise<void> {
  for (const place of places) await mkdir(join(folder, place), { recursive: true })
  for (const link of links) await symlink(`usr/${link}`, join(folder, link))
  await mkdir(join(folder, dirname(node)), { recursive: true })
}

const surroundings = (node: string) => [
  ..."--ro-bind /usr /usr --ro-bind /etc /etc --proc /proc --dev /dev --tmpfs /tmp".split(" "),
  ...(node.startsWith("/usr/") ? [] : ["--ro-bind", dirname(node), dirname(node)]),
  "--die-with-parent",
]

const environment = ({ env }: Image, node: string) => ({
  PATH: `${dirname(node)}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin`,
  ...env,
})

/** As in the base image, whatever users this machine has. */
const users = "root:x:0:0:root:/root:/bin/bash\nnode:x:1000:1000::/home/node:/bin/bash\n"

/** The words that start something in a container of an image: its root is read-only. @param data what /data is */
function container(image: Image, node: string, data: string): string[] {
  const [uid, gid] = image.user.split(":") as [string, string]
  const root = [
    "--ro-bind",
    image.folder,
    "/",
    ...surroundings(node),
    "--bind",
    data,
    "/data",
    "--chdir",
    image.workdir,
  ]
  return [
    ...root,
    "--ro-bind",
    join(dirname(image.folder), "passwd"),
    "/etc/passwd",
    "--unshare-user",
    "--uid",
    uid,
    "--gid",
    gid,
  ]
}

export interface Container {
  stdout(): string
  stderr(): string
  /** Its exit code, or the signal that ended it. */
  readonly ended: Promise<number | string>
  /** SIGTERM to its first process, which has the number 1 in there. Resolves with its exit code. */
  stop(): Promise<number | string>
  /** What another command in there says, or its exit code. */
  run(...words: string[]): Promise<string | number>
}

export function startContainer(image: Image, node: string, data: string, env: Record<string, string>): Container {
  const whole = { ...environment(image, node), ...env }
  const words = [...container(image, node, data), "--unshare-pid", "--as-pid-1", "--json-status-fd", "3"]
  const child = spawn("bwrap", [...words, ...image.command], { env: whole, stdio: ["ignore", "pipe", "pipe", "pipe"] })
  const said = ["", "", ""]
  for (const [i, stream] of [child.stdout!, child.stderr!, child.stdio[3] as Readable].entries())
    stream.setEncoding("utf8").on("data", (text: string) => (said[i] += text))
  const ended = once(child, "exit").then(([code, signal]) => (signal ?? code) as number | string)
  return {
    stdout: () => said[0]!,
    stderr: () => said[1]!,
    ended,
    async stop() {
      const [, pid] = /"child-pid": (\d+)/.exec(said[2]!) ?? []
      if (child.exitCode === null && pid !== undefined) process.kill(Number(pid), "SIGTERM")
      const late = setTimeout(() => child.kill("SIGKILL"), 20_000)
      return ended.finally(() => clearTimeout(late))
    },
    run: (...command) =>
      run("bwrap", [...container(image, node, data), ...command], { env: whole }).then(
        ({ stdout }) => stdout.trim(),
        (error: { code: number }) => error.code,
      ),
  }
}
