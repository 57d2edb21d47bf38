interface Entry {
  readonly name: string
  readonly key?: string
  readonly default: unknown
  readonly sentence: string
}

const width = 100

/** What `--help` prints. */
export function helpText(settings: readonly Entry[]): string {
  return `Starling, a realtime chat server: REST and gateway on one port.

  npm start                     starts it; node dist/src/main.js does, once it is built
  npm start -- --check-config   says what is wrong with the settings and starts nothing
  npm start -- --version        the version, and the commit that it was built from
  npm start -- --help           this
  npm run operator -- --help    what operators can do

Signals: TERM and INT end it in good order, and at once the second time; USR2 replaces its processes one after another.
Exit codes: 0 told to end, 1 failed, 2 a setting or an argument is wrong.

Every setting is an environment variable; the STARLING_ ones can stand in CONFIG_FILE, too:

${settings.map(settingText).join("\n")}`
}

function settingText({ name, default: value, sentence }: Entry): string {
  const shown = value === undefined ? "" : ` = ${typeof value === "string" ? value : JSON.stringify(value)}`
  return `  ${name}${shown}\n${wrapped(sentence.replaceAll(/\[([^\]]*)\]\([^)]*\)/g, "$1"), "      ")}`
}

function wrapped(text: string, indent: string): string {
  const lines = [indent]
  for (const word of text.split(" ")) {
    const line = lines.at(-1)!
    if (line.length + word.length + 1 > width && line !== indent) lines.push(`${indent}${word}`)
    else lines[lines.length - 1] = line === indent ? `${line}${word}` : `${line} ${word}`
  }
  return lines.join("\n")
}
