/** Louder than this, of 128, is speech; it lasts until so long after. */
const loudness = 6
const lastsMs = 400
const everyMs = 100
/** More samples than come between two looks, so that no sound is missed: 170 ms at 48 kHz. */
const samplesPerLook = 8_192

/** What one says, and whether one says anything. It is open from a click until `close`. */
export class Microphone {
  readonly #stream: MediaStream
  readonly #context = new AudioContext()
  readonly #timer: ReturnType<typeof setInterval>
  #isSpeaking = false
  #loudAt = -Infinity

  private constructor(stream: MediaStream, onSpeaking: (isSpeaking: boolean) => void) {
    this.#stream = stream
    const analyser = this.#context.createAnalyser()
    analyser.fftSize = samplesPerLook
    this.#context.createMediaStreamSource(stream).connect(analyser)
    const samples = new Uint8Array(samplesPerLook)
    this.#timer = setInterval(() => {
      analyser.getByteTimeDomainData(samples)
      if (samples.some(sample => Math.abs(sample - 128) > loudness)) this.#loudAt = performance.now()
      const isSpeaking = performance.now() - this.#loudAt < lastsMs
      if (isSpeaking === this.#isSpeaking) return
      this.#isSpeaking = isSpeaking
      onSpeaking(isSpeaking)
    }, everyMs)
  }

  /** The browser asks the person. `deviceId` is empty where it chooses. */
  static async open(deviceId: string, onSpeaking: (isSpeaking: boolean) => void): Promise<Microphone> {
    const kept = { echoCancellation: true, noiseSuppression: true, autoGainControl: true }
    const audio = { ...kept, ...(deviceId && { deviceId: { exact: deviceId } }) }
    return new Microphone(await navigator.mediaDevices.getUserMedia({ audio }), onSpeaking)
  }

  get track(): MediaStreamTrack | undefined {
    return this.#stream.getAudioTracks()[0]
  }

  setOpen(isOpen: boolean): void {
    if (this.track) this.track.enabled = isOpen
  }

  close(): void {
    clearInterval(this.#timer)
    for (const track of this.#stream.getTracks()) track.stop()
    this.#context.close().catch(() => {})
  }
}
