import type { ClassifierBackend } from "../contract/communities/automod.ts"
import {
  AutomodClassifiers,
  type AutomodSettings,
  type AutomodSettingsPatch,
} from "../contract/communities/automod-settings.ts"
import { unavailable } from "../contract/core/errors.ts"
import {
  addressOfClassifier,
  backendsOf,
  changedClassifiers,
  faulty,
  shownClassifiers,
} from "../domain/communities/automod-settings.ts"
import type { Storage } from "../storage/storage.ts"
import { OutboundRequests, PrivateAddress, type Resolve } from "./outbound-requests.ts"
import type { Secrets } from "./secrets.ts"

export interface ClassifierSettingsOptions {
  readonly storage: Pick<Storage, "automodSettings">
  readonly secrets: Secrets
  /** Those that the configuration has set up. */
  readonly configured: AutomodClassifiers
  /** Whether those of operators may be in private networks. */
  readonly mayBePrivate: boolean
  readonly resolve?: Resolve
}

/** What holds for auto-moderation. */
export interface SettingsInForce {
  readonly isOff: boolean
  readonly classifiers: AutomodClassifiers
  readonly trusted: ReadonlySet<ClassifierBackend>
  readonly version: number
}

const sealedAbout = "automod classifiers"
/** How often a change is made again on top of somebody else's. */
const attempts = 5

/** What operators set of auto-moderation, over what the configuration says. */
export class ClassifierSettingsStore {
  readonly #options: ClassifierSettingsOptions
  readonly #outbound: OutboundRequests

  constructor(options: ClassifierSettingsOptions) {
    this.#options = options
    const { mayBePrivate, resolve } = options
    this.#outbound = new OutboundRequests({ mayBePrivate, ...(resolve && { resolve }) })
  }

  async inForce(): Promise<SettingsInForce> {
    const { configured } = this.#options
    const { enabled, stored, version } = await this.#read()
    return {
      isOff: !enabled,
      classifiers: { ...configured, ...stored },
      trusted: new Set(backendsOf(configured).filter(backend => stored[backend] === undefined)),
      version,
    }
  }

  async shown(): Promise<AutomodSettings> {
    const { isOff, classifiers, trusted } = await this.inForce()
    const shown: Record<string, unknown> = { ...shownClassifiers(classifiers) }
    // What the configuration says may have a name and a password in its URL.
    for (const backend of trusted) shown[backend] = withoutUser(shown[backend] as object)
    return { enabled: !isOff, ai: shown }
  }

  /** A change of somebody else in between is not lost. */
  async change({ enabled, ai = {} }: AutomodSettingsPatch): Promise<AutomodSettings> {
    const { storage, secrets, configured } = this.#options
    for (const backend of ["openai", "perspective", "custom"] as const)
      if (ai[backend]) await this.#requirePublic(backend, addressOfClassifier(ai[backend]))
    for (let attempt = 0; attempt < attempts; attempt++) {
      const before = await this.#read()
      const stored = changedClassifiers(before.stored, { ...configured, ...before.stored }, ai)
      const backends = backendsOf(stored)
      const isWritten = await storage.automodSettings.write({
        enabled: enabled ?? before.enabled,
        backends,
        classifiers: backends.length === 0 ? null : secrets.seal(JSON.stringify(stored), sealedAbout),
        version: before.version,
      })
      if (isWritten) return this.shown()
    }
    throw unavailable("the settings of auto-moderation are being changed")
  }

  async #read() {
    const { storage, secrets } = this.#options
    const { enabled, classifiers, version } = await storage.automodSettings.read()
    const stored =
      classifiers === null ? {} : AutomodClassifiers.parse(JSON.parse(secrets.open(classifiers, sealedAbout)))
    return { enabled, stored, version }
  }

  async #requirePublic(backend: ClassifierBackend, url: string): Promise<void> {
    const place = `${backend}.${backend === "custom" ? "endpoint_url" : "api_url"}`
    try {
      await this.#outbound.check(url)
    } catch (error) {
      if (error instanceof PrivateAddress) throw faulty(`${place}: leads into a private network`)
      throw faulty(`${place}: its host is not found`)
    }
  }
}

function withoutUser(settings: object): object {
  const place = "endpoint_url" in settings ? "endpoint_url" : "api_url"
  const url = new URL((settings as Record<string, string>)[place]!)
  url.username = url.password = url.hash = ""
  return { ...settings, [place]: url.href }
}
