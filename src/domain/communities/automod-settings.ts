import type { ClassifierBackend } from "../../contract/communities/automod.ts"
import {
  classifierSettings,
  hiddenSecret,
  requestDepth,
  type AutomodClassifiers,
  type AutomodSettingsPatch,
  type ClassifierSettings,
} from "../../contract/communities/automod-settings.ts"
import { fail } from "../../contract/core/errors.ts"

/**
 * What operators set of auto-moderation. It keeps:
 *   AM4  A key is shown to nobody, and sent nowhere but to the address that it was given for.
 */

/** One that the configuration has set up. */
export function configuredClassifier<T extends ClassifierBackend>(
  backend: T,
  { url, token = null }: { readonly url: string; readonly token?: string | null | undefined },
): ClassifierSettings<T> {
  const place = placeOf(backend)
  const usual = classifierSettings[backend].parse({ [place]: "https://classifier.example" })
  return { ...usual, [place]: url, api_key: token } as ClassifierSettings<T>
}

type Changes = NonNullable<AutomodSettingsPatch["ai"]>
type Settings = AutomodClassifiers[ClassifierBackend]

const backendNames: readonly ClassifierBackend[] = ["openai", "perspective", "custom"]

export const backendsOf = (classifiers: AutomodClassifiers): ClassifierBackend[] =>
  backendNames.filter(backend => classifiers[backend] !== undefined)

export const addressOfClassifier = (settings: NonNullable<Settings>): string =>
  "endpoint_url" in settings ? settings.endpoint_url : settings.api_url

const placeOf = (backend: ClassifierBackend) => (backend === "custom" ? "endpoint_url" : "api_url")

const hiddenQuery = `?${hiddenSecret}`

function withHiddenQuery(address: string): string {
  const url = new URL(address)
  if (url.search === "") return address
  url.search = hiddenQuery
  return url.href
}

/** AM4 */
export function shownClassifiers(classifiers: AutomodClassifiers): AutomodClassifiers {
  const shown = Object.fromEntries(
    backendsOf(classifiers).map(backend => {
      const settings = classifiers[backend]!
      return [
        backend,
        {
          ...settings,
          [placeOf(backend)]: withHiddenQuery(addressOfClassifier(settings)),
          api_key: settings.api_key === null ? null : hiddenSecret,
          ...("headers" in settings && {
            headers: Object.fromEntries(Object.keys(settings.headers).map(name => [name, hiddenSecret])),
          }),
        },
      ]
    }),
  )
  return shown
}

/**
 * Stored classifiers after a change: what is sent replaces a classifier as a whole. `inForce` has
 * the secrets that stay as they are.
 */
export function changedClassifiers(
  stored: AutomodClassifiers,
  inForce: AutomodClassifiers,
  changes: Changes,
): AutomodClassifiers {
  const changed: Record<string, unknown> = { ...stored }
  for (const backend of backendNames) {
    const given = changes[backend]
    if (given === undefined) continue
    if (given === null) delete changed[backend]
    else changed[backend] = withSecrets(backend, given, inForce[backend])
  }
  return changed
}

/** AM4: hidden secrets are those of before, unless the address is another. */
function withSecrets(backend: ClassifierBackend, given: NonNullable<Settings>, before: Settings) {
  const isSameAddress =
    before !== undefined && new URL(addressOfClassifier(given)).origin === new URL(addressOfClassifier(before)).origin
  const kept = (place: string, value: string, known: string | null | undefined): string => {
    if (value !== hiddenSecret) return value
    if (known === null || known === undefined) throw faulty(`${backend}.${place}: there is none to be left as it is`)
    if (!isSameAddress) throw faulty(`${backend}.${place}: is needed again for another address`)
    return known
  }
  const urlPlace = placeOf(backend)
  const url = new URL(addressOfClassifier(given))
  if (url.search === hiddenQuery)
    url.search = kept(urlPlace, hiddenSecret, (before && new URL(addressOfClassifier(before)).search) || undefined)
  const headersBefore = before && "headers" in before ? before.headers : {}
  return {
    ...given,
    ...(url.search !== "" && { [urlPlace]: url.href }),
    api_key: given.api_key === null ? null : kept("api_key", given.api_key, before?.api_key),
    ...("headers" in given && {
      headers: Object.fromEntries(
        Object.entries(given.headers).map(([name, value]) => [
          name,
          kept(`headers.${name}`, value, Object.hasOwn(headersBefore, name) ? headersBefore[name] : undefined),
        ]),
      ),
    }),
  }
}

export const faulty = (fault: string) => fail("invalid_automod_settings", { message: `Invalid ai.${fault}` })

/** The body of a request to a classifier, with the text in its places. */
export function requestBody(format: Readonly<Record<string, unknown>>, content: string): unknown {
  const filled = (value: unknown, depth: number): unknown => {
    if (typeof value === "string") return value.replaceAll("{content}", () => content)
    if (typeof value !== "object" || value === null || depth >= requestDepth) return value
    if (Array.isArray(value)) return value.map(inner => filled(inner, depth + 1))
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, filled(inner, depth + 1)]))
  }
  return filled(format, 0)
}
