import { effect, signal, type ReadonlySignal } from "@preact/signals"
import { opcodes, type Events, type IceServer, type Snowflake } from "../../../client/contract.ts"
import type { VoiceSignal } from "../../../client/gateway.ts"
import { t } from "../../kit/text.ts"
import { say, sayFailed } from "../../kit/toasts.tsx"
import { me, ownId, session, type Session } from "../session.ts"
import { Microphone } from "./microphone.ts"
import { isPolite, Peer, type Link, type SentSignal } from "./peer.ts"

/** The call that one is in, as it is shown. */
export interface CallView {
  readonly server: Snowflake
  readonly channel: Snowflake
  readonly state: "joining" | "here" | "returning"
  readonly isMuted: boolean
  readonly isDeaf: boolean
  /** Why nobody hears one, beside that one has muted oneself. */
  readonly silence: "no microphone" | "may not speak" | undefined
  readonly links: ReadonlyMap<Snowflake, Link>
  /** Others in the channel to whom there is no connection, because there are too many. */
  readonly unheard: number
}

const current = signal<CallView | undefined>(undefined)
export const call: ReadonlySignal<CallView | undefined> = current
const speakers = signal<ReadonlySet<Snowflake>>(new Set())
/** Who speaks in the call that one is in. */
export const speaking: ReadonlySignal<ReadonlySet<Snowflake>> = speakers

/** Each sends to every other: beyond this a browser and a line have too much to do. */
const maxPeers = 25
const joinWithinMs = 15_000
const maxEarly = 500
/** Credentials of TURN last ten minutes. */
const renewIceEveryMs = 8 * 60_000
/** After a longer absence one is not taken back into a call by oneself. */
const maxAwayMs = 120_000

const microphoneKey = "starling.app.microphone"
const speakerKey = "starling.app.speaker"
const chosenDevice = (key: string): string => localStorage.getItem(key) ?? ""

/** Another tab of this browser that joins takes the call. */
const tabs = new BroadcastChannel("starling.voice")
tabs.addEventListener("message", () => going?.end(t("Your call goes on in another tab.")))

let going: Call | undefined

/** After a click: the browser may ask for the microphone. */
export async function join(server: Snowflake, channel: Snowflake): Promise<void> {
  const isMove = going !== undefined
  going?.end()
  // A channel has no origin to name: it reaches this one alone.
  // oxlint-disable-next-line unicorn/require-post-message-target-origin
  tabs.postMessage("joined")
  going = new Call(me(), { server, channel, isMove })
  await going.begin()
}
/** After a click, too: where one only listens so far. */
export const openMicrophone = async (): Promise<void> => going?.openMicrophone()
export const leave = (): void => going?.leave()
export const setMuted = (isMuted: boolean): void => going?.setMuted(isMuted)
export const setDeaf = (isDeaf: boolean): void => going?.setDeaf(isDeaf)

export async function chooseMicrophone(deviceId: string): Promise<void> {
  localStorage.setItem(microphoneKey, deviceId)
  await openMicrophone()
}
export function chooseSpeaker(deviceId: string): void {
  localStorage.setItem(speakerKey, deviceId)
  going?.hear()
}
export const chosenMicrophone = (): string => chosenDevice(microphoneKey)
export const chosenSpeaker = (): string => chosenDevice(speakerKey)

// Who signs out, or in as somebody else, is in no call.
effect(() => {
  const { value } = session
  if (going && value !== going.session) going.end()
})
addEventListener("pagehide", () => going?.leave())

/** One stay in one voice channel. The server says who is there, and forwards what peers tell one another. */
class Call {
  readonly session: Session
  readonly #server: Snowflake
  readonly #channel: Snowflake
  /** This page was in another call, which the server ends when this one begins. */
  #isMove: boolean
  readonly #peers = new Map<Snowflake, Peer>()
  #iceServers: readonly IceServer[] = []
  /** What others sent who saw one come before one was told so oneself. */
  readonly #early: VoiceSignal[] = []
  #microphone: Microphone | undefined
  /** What the server says of one in this channel. */
  #own = { isSilenced: false, isDeafened: false, maySpeak: true }
  #view: CallView
  #isOver = false
  #awaySince: number | undefined
  #joinTimer: ReturnType<typeof setTimeout> | undefined
  #permissionTimer: ReturnType<typeof setTimeout> | undefined
  readonly #iceTimer: ReturnType<typeof setInterval>
  readonly #ends: (() => void)[]

  constructor(of: Session, { server, channel, isMove }: { server: Snowflake; channel: Snowflake; isMove: boolean }) {
    this.session = of
    this.#isMove = isMove
    this.#server = server
    this.#channel = channel
    const nothing = { isMuted: false, isDeaf: false, silence: undefined, links: new Map(), unheard: 0 }
    this.#view = { server, channel, state: "joining", ...nothing }
    this.#iceTimer = setInterval(() => void this.#renewIce(), renewIceEveryMs)
    const { gateway } = of
    const ofServer = ({ server_id }: { server_id: Snowflake | null }) => {
      if (server_id === server) this.#askAgain()
    }
    this.#ends = [
      gateway.on("voice", heard => this.#receive(heard)),
      gateway.on("VOICE_SERVER_UPDATE", update => void this.#enter(update)),
      gateway.on("VOICE_STATE_UPDATE", state => this.#note(state)),
      gateway.on("close", () => this.#away()),
      gateway.on("resumed", () => this.#back()),
      // The session of before is gone, and the call with it.
      gateway.on("ready", () => this.#again()),
      gateway.on("GUILD_ROLE_UPDATE", ofServer),
      gateway.on("GUILD_MEMBER_UPDATE", ({ server_id, user }) => {
        if (user.id === ownId()) ofServer({ server_id })
      }),
      gateway.on("CHANNEL_UPDATE", ({ id }) => {
        if (id === channel) this.#askAgain()
      }),
    ]
    this.#show({})
  }

  async begin(): Promise<void> {
    await this.#askPermission()
    if (this.#own.maySpeak) await this.openMicrophone()
    if (!this.#isOver) this.#knock()
  }

  /** The one that was chosen; without one, or without the person's consent, one only listens. */
  async openMicrophone(): Promise<void> {
    const opened = await Microphone.open(chosenMicrophone(), isSpeaking => this.#speak(isSpeaking)).catch(
      () => undefined,
    )
    if (this.#isOver) return opened?.close()
    this.#microphone?.close()
    this.#use(opened)
    // It was unplugged, or the browser took it back.
    opened?.track?.addEventListener("ended", () => {
      if (this.#microphone === opened) this.#use(undefined)
    })
  }

  #use(microphone: Microphone | undefined): void {
    this.#microphone = microphone
    if (this.#isOver) return
    this.#apply()
    for (const peer of this.#peers.values()) peer.setTrack(microphone?.track)
  }

  leave(because?: string): void {
    this.#send(opcodes.VOICE_DISCONNECT, null)
    this.end(because)
  }

  /** Ends it here; the server is not told. */
  end(because?: string): void {
    if (this.#isOver) return
    this.#isOver = true
    for (const end of this.#ends) end()
    clearInterval(this.#iceTimer)
    clearTimeout(this.#joinTimer)
    clearTimeout(this.#permissionTimer)
    for (const peer of this.#peers.values()) peer.close()
    this.#microphone?.close()
    going = undefined
    current.value = undefined
    speakers.value = new Set()
    if (because !== undefined) say(because)
  }

  setMuted(isMuted: boolean): void {
    // Who wants to be heard wants to hear.
    this.#show({ isMuted, ...(!isMuted && { isDeaf: false }) })
    this.#apply()
    this.#sendFlags()
  }

  setDeaf(isDeaf: boolean): void {
    this.#show({ isDeaf })
    this.#apply()
    this.#sendFlags()
  }

  hear(): void {
    const isDeaf = this.#view.isDeaf || this.#own.isDeafened
    for (const peer of this.#peers.values()) peer.hear({ isDeaf, deviceId: chosenSpeaker() })
  }

  #show(change: Partial<CallView>): void {
    if (this.#isOver) return
    current.value = this.#view = { ...this.#view, ...change }
  }

  /** Makes it so that one is heard, and hears, as was chosen and as the server allows. */
  #apply(): void {
    const { isMuted, isDeaf } = this.#view
    const { isSilenced, maySpeak } = this.#own
    this.#microphone?.setOpen(!isMuted && !isDeaf && !isSilenced && maySpeak)
    const isSilent = isSilenced || !maySpeak
    this.#show({ silence: isSilent ? "may not speak" : this.#microphone ? undefined : "no microphone" })
    this.hear()
  }

  #send(op: number, d: object | null): void {
    try {
      this.session.gateway.send({ op, d })
    } catch {
      // There is no connection; `#back` repairs what was not sent.
    }
  }

  #sendFlags(): void {
    const { isMuted, isDeaf } = this.#view
    this.#send(opcodes.VOICE_STATE_UPDATE, { channel_id: this.#channel, self_mute: isMuted, self_deaf: isDeaf })
  }

  /** Asks to be let in: op 20 takes the call also from a session of before. */
  #knock(): void {
    this.#show({ state: "joining" })
    this.#send(opcodes.VOICE_CONNECT, { channel_id: this.#channel })
    clearTimeout(this.#joinTimer)
    this.#joinTimer = setTimeout(() => {
      if (this.#view.state === "joining") this.leave(t("The voice channel could not be joined."))
    }, joinWithinMs)
  }

  /** One is in: those who are there already are sent offers. */
  async #enter({ channel_id, ice_servers }: Events["VOICE_SERVER_UPDATE"]): Promise<void> {
    if (channel_id !== this.#channel) return
    clearTimeout(this.#joinTimer)
    this.#isMove = false
    this.#iceServers = ice_servers
    for (const user of this.#peers.keys()) this.#drop(user)
    const { isMuted, isDeaf } = this.#view
    if (isMuted || isDeaf) this.#sendFlags()
    this.#show({ state: "here" })
    for (const heard of this.#early.splice(0)) this.#receive(heard)
    try {
      const { participants } = await this.session.client.getVoiceInfo({ channel_id })
      if (this.#isOver) return
      const others = participants.filter(({ user_id }) => user_id !== ownId())
      for (const { user_id } of others)
        if (!this.#peers.has(user_id)) this.#peer(user_id)?.begin(this.#microphone?.track)
      this.#show({ unheard: Math.max(0, others.length - maxPeers) })
    } catch (error) {
      this.leave()
      sayFailed(error)
    }
  }

  #note({ user_id, channel_id, server_id, mute, suppress, deaf }: Events["VOICE_STATE_UPDATE"]): void {
    const isHere = channel_id === this.#channel
    if (user_id !== ownId()) {
      // Who comes sends an offer.
      if (server_id === this.#server && !isHere) this.#drop(user_id)
      return
    }
    if (isHere) {
      this.#own = { ...this.#own, isSilenced: mute || suppress, isDeafened: deaf }
      this.#apply()
    } else if (this.#view.state === "joining") {
      // The answer to a refused join is the state that one is in.
      if (server_id !== null && channel_id === null) return
      const because = t("You cannot join: it is full, it is closed to you, or your minutes of today are used up.")
      // The call that this page was in goes on there; one on another device is none of its business.
      if (this.#isMove) this.leave(because)
      else this.end(because)
    } else if (server_id === this.#server)
      this.end(channel_id === null ? t("You are no longer in the voice channel.") : t("Your call goes on elsewhere."))
  }

  #away(): void {
    this.#awaySince ??= performance.now()
    this.#show({ state: "returning" })
  }

  /** The session goes on, and so does the call; what was sent meanwhile may be lost. */
  #back(): void {
    this.#awaySince = undefined
    if (this.#view.state !== "returning") return
    this.#show({ state: "here" })
    this.#sendFlags()
    for (const peer of this.#peers.values()) peer.repair()
  }

  #again(): void {
    const awayMs = performance.now() - (this.#awaySince ?? performance.now())
    this.#awaySince = undefined
    if (awayMs > maxAwayMs) this.end(t("You are no longer in the voice channel."))
    else this.#knock()
  }

  #receive(heard: VoiceSignal): void {
    const { user_id, channel_id } = heard
    if (channel_id !== this.#channel) return
    if (this.#view.state === "joining") {
      if (this.#early.length < maxEarly) this.#early.push(heard)
      return
    }
    if (heard.kind === "speaking") {
      this.#noteSpeaking(user_id, heard.speaking)
      return
    }
    const known = this.#peers.get(user_id)
    if (heard.kind === "offer" && known?.isOfAnother(heard.session_id)) this.#drop(user_id)
    // Candidates may come before their offer.
    this.#peer(user_id)?.receive(heard, this.#microphone?.track)
  }

  #peer(user: Snowflake): Peer | undefined {
    const known = this.#peers.get(user)
    if (known || this.#peers.size >= maxPeers) return known
    const peer = new Peer({
      isPolite: isPolite(ownId(), user),
      iceServers: this.#iceServers as RTCIceServer[],
      send: signal => this.#tell(user, signal),
      onLink: () => this.#showLinks(),
    })
    this.#peers.set(user, peer)
    this.hear()
    this.#showLinks()
    return peer
  }

  #drop(user: Snowflake): void {
    this.#noteSpeaking(user, false)
    this.#peers.get(user)?.close()
    if (this.#peers.delete(user)) this.#showLinks()
  }

  #showLinks(): void {
    this.#show({ links: new Map([...this.#peers].map(([user, { link }]) => [user, link])) })
  }

  #tell(user: Snowflake, signal: SentSignal): void {
    const to = { channel_id: this.#channel, target_user_id: user }
    if (signal.kind === "candidate") {
      const { candidate = "", sdpMid = null, sdpMLineIndex = null } = signal.candidate ?? {}
      this.#send(opcodes.VOICE_ICE_CANDIDATE, { ...to, candidate, sdpMid, sdpMLineIndex })
    } else if (signal.kind === "offer") this.#send(opcodes.VOICE_SDP_OFFER, { ...to, sdp: signal.sdp, type: "offer" })
    else this.#send(opcodes.VOICE_SDP_ANSWER, { ...to, sdp: signal.sdp })
  }

  #speak(isSpeaking: boolean): void {
    this.#noteSpeaking(ownId(), isSpeaking)
    this.#send(opcodes.VOICE_SPEAKING, { channel_id: this.#channel, speaking: isSpeaking })
  }

  #noteSpeaking(user: Snowflake, isSpeaking: boolean): void {
    if (this.#isOver || speakers.value.has(user) === isSpeaking) return
    const now = new Set(speakers.value)
    if (isSpeaking) now.add(user)
    else now.delete(user)
    speakers.value = now
  }

  async #renewIce(): Promise<void> {
    const { ice_servers } = await this.session.client.getIceServers().catch(() => ({ ice_servers: undefined }))
    if (!ice_servers) return
    this.#iceServers = ice_servers
    for (const peer of this.#peers.values()) peer.setIceServers(ice_servers as RTCIceServer[])
  }

  #askAgain(): void {
    clearTimeout(this.#permissionTimer)
    this.#permissionTimer = setTimeout(() => void this.#askPermission().then(() => this.#apply()), 500)
  }

  async #askPermission(): Promise<void> {
    const where = { server_id: this.#server, channel_id: this.#channel }
    const may = await this.session.client.getServerPermissions(where).catch(() => undefined)
    if (may) this.#own = { ...this.#own, maySpeak: may["voice.speak"] }
  }
}
