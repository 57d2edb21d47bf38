import type { Snowflake } from "../../../client/contract.ts"
import type { VoiceSignal } from "../../../client/gateway.ts"

/** How it stands with one other: whether one hears them, and is heard. */
export type Link = "connecting" | "connected" | "lost"

/** What is sent to the other over the gateway. It may be lost on the way. */
export type SentSignal =
  | { readonly kind: "offer" | "answer"; readonly sdp: string }
  | { readonly kind: "candidate"; readonly candidate: RTCIceCandidate | null }

interface Description {
  readonly sdp: string
  readonly session_id: string
}
type Candidate = Required<Pick<RTCIceCandidateInit, "candidate" | "sdpMid" | "sdpMLineIndex">>

interface PeerOptions {
  /** Of two that offer at once, this one gives way. */
  readonly isPolite: boolean
  readonly iceServers: readonly RTCIceServer[]
  readonly send: (signal: SentSignal) => void
  /** It stands otherwise with the other. */
  readonly onLink: () => void
}

/** An offer without an answer is sent again after so long, at most so often. */
const answerWithinMs = 5_000
const maxOffers = 8

/**
 * The connection to one other in a call. It keeps:
 *   PEER1  Both may offer, at any time: of two offers that meet one counts, the same for both.
 *   PEER2  What is lost on the way is sent again: an offer until it is answered, and candidates
 *       that come before their description wait for it.
 */
export class Peer {
  readonly #options: PeerOptions
  readonly #connection: RTCPeerConnection
  readonly #audio = new Audio()
  /** One step at a time, in the order in which they were asked for. */
  #steps: Promise<unknown> = Promise.resolve()
  /** The other's voice session: with another one they begin anew. */
  #session: string | undefined
  #sender: RTCRtpSender | undefined
  #early: RTCIceCandidateInit[] = []
  #ignoresOffer = false
  #isClosed = false
  #offers = 0
  #again: ReturnType<typeof setTimeout> | undefined

  constructor(options: PeerOptions) {
    this.#options = options
    this.#connection = new RTCPeerConnection({ iceServers: [...options.iceServers] })
    const connection = this.#connection
    connection.addEventListener("negotiationneeded", () => this.#step(() => this.#offer()))
    connection.addEventListener("icecandidate", ({ candidate }) => options.send({ kind: "candidate", candidate }))
    connection.addEventListener("track", ({ track }) => {
      this.#audio.srcObject = new MediaStream([track])
      this.#audio.play().catch(() => {})
    })
    connection.addEventListener("connectionstatechange", () => {
      if (connection.connectionState === "failed") this.repair()
      options.onLink()
    })
  }

  get link(): Link {
    switch (this.#connection.connectionState) {
      case "connected":
        return "connected"
      case "failed":
      case "disconnected":
      case "closed":
        return "lost"
      default:
        return "connecting"
    }
  }

  /** Whether an offer is of a voice session that began after the one that is known. */
  isOfAnother(session: string): boolean {
    return this.#session !== undefined && this.#session !== session
  }

  /** The first word to the other. Without a track one only listens. */
  begin(track: MediaStreamTrack | undefined): void {
    if (track) this.#sender = this.#connection.addTrack(track)
    else this.#connection.addTransceiver("audio", { direction: "recvonly" })
  }

  /** Sends another track, or none, from now on. */
  setTrack(track: MediaStreamTrack | undefined): void {
    this.#step(() => this.#carry(track))
  }

  async #carry(track: MediaStreamTrack | undefined): Promise<void> {
    if (this.#sender) await this.#sender.replaceTrack(track ?? null)
    // What the other offers to send and receive is used for both; else it is offered to them.
    else if (track) this.#sender = this.#connection.addTrack(track)
  }

  /** `deviceId` is empty where the system chooses. */
  hear({ isDeaf, deviceId }: { isDeaf: boolean; deviceId: string }): void {
    this.#audio.muted = isDeaf
    if ("setSinkId" in this.#audio) this.#audio.setSinkId(deviceId).catch(() => {})
  }

  /** Servers whose credentials last longer than those of before. */
  setIceServers(iceServers: readonly RTCIceServer[]): void {
    this.#connection.setConfiguration({ iceServers: [...iceServers] })
  }

  /** After something may have been lost: an open offer is sent again, and a lost connection is sought anew. */
  repair(): void {
    if (this.#isClosed) return
    this.#offers = 0
    if (this.#connection.signalingState === "have-local-offer") this.#sendOffer()
    else if (this.link === "lost") this.#connection.restartIce()
  }

  receive(signal: Exclude<VoiceSignal, { kind: "speaking" }>, track: MediaStreamTrack | undefined): void {
    this.#step(async () => {
      if (signal.kind === "candidate") await this.#takeCandidate(signal)
      else if (signal.kind === "offer") await this.#takeOffer(signal, track)
      else await this.#takeAnswer(signal)
    })
  }

  close(): void {
    this.#isClosed = true
    clearTimeout(this.#again)
    this.#connection.close()
    this.#audio.srcObject = null
  }

  #step(work: () => Promise<unknown>): void {
    // What fails is of a connection that ends, or is answered by the next offer.
    this.#steps = this.#steps.then(() => (this.#isClosed ? undefined : work())).catch(() => {})
  }

  async #offer(): Promise<void> {
    if (this.#connection.signalingState !== "stable") return
    await this.#connection.setLocalDescription()
    this.#offers = 0
    this.#sendOffer()
  }

  /** PEER2 */
  #sendOffer(): void {
    clearTimeout(this.#again)
    const { localDescription, signalingState } = this.#connection
    if (this.#isClosed || signalingState !== "have-local-offer" || !localDescription) return
    if (++this.#offers > maxOffers) return
    this.#options.send({ kind: "offer", sdp: localDescription.sdp })
    this.#again = setTimeout(() => this.#sendOffer(), answerWithinMs)
  }

  async #takeOffer({ sdp, session_id }: Description, track: MediaStreamTrack | undefined) {
    const connection = this.#connection
    // PEER1
    this.#ignoresOffer = !this.#options.isPolite && connection.signalingState !== "stable"
    if (this.#ignoresOffer) return
    clearTimeout(this.#again)
    this.#session = session_id
    await connection.setRemoteDescription({ type: "offer", sdp })
    if (this.#sender?.track !== track) await this.#carry(track)
    await this.#addEarly()
    await connection.setLocalDescription()
    if (connection.localDescription) this.#options.send({ kind: "answer", sdp: connection.localDescription.sdp })
  }

  async #takeAnswer({ sdp, session_id }: Description) {
    if (this.#connection.signalingState !== "have-local-offer" || this.isOfAnother(session_id)) return
    clearTimeout(this.#again)
    this.#session = session_id
    // What comes from now on belongs to the answer.
    this.#ignoresOffer = false
    await this.#connection.setRemoteDescription({ type: "answer", sdp })
    await this.#addEarly()
  }

  async #takeCandidate({ candidate, sdpMid, sdpMLineIndex }: Candidate) {
    if (candidate === "") return
    const one = { candidate, sdpMid, sdpMLineIndex }
    if (this.#connection.remoteDescription && !this.#ignoresOffer) await this.#connection.addIceCandidate(one)
    else if (this.#early.length < maxEarly) this.#early.push(one)
  }

  async #addEarly(): Promise<void> {
    const early = this.#early
    this.#early = []
    for (const candidate of early) await this.#connection.addIceCandidate(candidate).catch(() => {})
  }
}

/** Candidates that wait for their description. */
const maxEarly = 100

/** Of two that offer at once the one with the lower id gives way. */
export const isPolite = (own: Snowflake, other: Snowflake): boolean => BigInt(own) < BigInt(other)
