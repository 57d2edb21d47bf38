import { useState } from "preact/hooks"
import type { ChannelResponse, Snowflake } from "../../../client/contract.ts"
import type { KnownCall, KnownServer } from "../../../client/state.ts"
import { Dialog } from "../../kit/dialog.tsx"
import { Select } from "../../kit/forms.tsx"
import { useResource } from "../../kit/resource.ts"
import { count, t } from "../../kit/text.ts"
import { sayFailed } from "../../kit/toasts.tsx"
import { Icon } from "../icons.tsx"
import { avatarOf, nameIn } from "../names.ts"
import { linkToPlace } from "../places.ts"
import { me, ownId, watch } from "../session.ts"
import {
  call,
  chooseMicrophone,
  chooseSpeaker,
  chosenMicrophone,
  chosenSpeaker,
  join,
  leave,
  openMicrophone,
  setDeaf,
  setMuted,
  speaking,
  type CallView,
} from "./call.ts"
import "./voice.css"

/** Who is in a voice channel, by their names. */
function participantsOf(known: KnownServer | undefined, channel: Snowflake): (KnownCall & { readonly name: string })[] {
  return [...(known?.voice.values() ?? [])]
    .filter(({ channel_id }) => channel_id === channel)
    .map(one => ({ ...one, name: nameIn(known, one.user_id, one.user_id) }))
    .toSorted((one, other) => one.name.localeCompare(other.name))
}

/** Below its name in the list of channels. */
export function InVoice({ server, channel }: { server: Snowflake; channel: Snowflake }) {
  const known = watch(`server ${server}`).state.servers.get(server)
  const people = participantsOf(known, channel)
  if (people.length === 0) return null
  return (
    <ul class="in-voice">
      {people.map(({ user_id, name, self_mute, self_deaf, mute, suppress }) => (
        <li key={user_id} class={speaking.value.has(user_id) ? "speaking" : undefined}>
          <span class="long">{name}</span>
          {(self_mute || mute || suppress) && <Silent isDeaf={self_deaf} />}
        </li>
      ))}
    </ul>
  )
}

const Silent = ({ isDeaf }: { isDeaf: boolean }) => {
  const words = isDeaf ? t("hears nothing") : t("muted")
  return (
    <span class="silent" title={words}>
      <Icon name={isDeaf ? "deaf" : "muted"} />
      <span class="unseen">{words}</span>
    </span>
  )
}

/** A voice channel that is looked at: who is there, and the way in. */
export function VoiceChannel({ server, channel }: { server: Snowflake; channel: ChannelResponse }) {
  const known = watch(`server ${server}`).state.servers.get(server)
  const people = participantsOf(known, channel.id)
  const own = call.value?.channel === channel.id ? call.value : undefined
  return (
    <section class="voice" aria-label={t("Voice channel")}>
      {people.length === 0 ? (
        <p class="faint">{t("Nobody is here yet.")}</p>
      ) : (
        <ul class="participants" aria-label={t("Who is here")}>
          {people.map(({ user_id, name, self_mute, self_deaf, mute, suppress }) => (
            <li key={user_id} class={speaking.value.has(user_id) ? "speaking" : undefined}>
              <img
                class="avatar"
                src={avatarOf(user_id, known?.members.get(user_id)?.avatar_url)}
                alt=""
                width={56}
                height={56}
              />
              <span class="long">{name}</span>
              {speaking.value.has(user_id) && <span class="unseen">{t("speaks")}</span>}
              {(self_mute || mute || suppress) && <Silent isDeaf={self_deaf} />}
              {own && user_id !== ownId() && own.links.get(user_id) !== "connected" && (
                <span class="faint small-text">{t("connecting …")}</span>
              )}
            </li>
          ))}
        </ul>
      )}
      {own ? <Controls of={own} /> : <WayIn server={server} channel={channel} present={people.length} />}
    </section>
  )
}

function WayIn({ server, channel, present }: { server: Snowflake; channel: ChannelResponse; present: number }) {
  const own = watch(`server ${server}`).state.servers.get(server)?.members.get(ownId())
  const decides = [server, channel.id, own?.roles, own?.timeout_until]
  const where = { server_id: server, channel_id: channel.id }
  const { data } = useResource(() => me().client.getServerPermissions(where), decides)
  const [isBusy, setBusy] = useState(false)
  const isFull = channel.user_limit > 0 && present >= channel.user_limit && data?.["voice.move_members"] !== true
  if (data && !data["voice.connect"]) return <p class="faint">{t("You may not join this channel.")}</p>
  const enter = async () => {
    setBusy(true)
    await join(server, channel.id).finally(() => setBusy(false))
  }
  return (
    <p class="buttons start">
      <button type="button" class="strong" disabled={isBusy || isFull || !data} onClick={() => void enter()}>
        {t("Join the call")}
      </button>
      {isFull && <span class="faint">{t("It is full.")}</span>}
    </p>
  )
}

function Controls({ of }: { of: CallView }) {
  const { isMuted, isDeaf, silence } = of
  const [isChoosing, choose] = useState(false)
  return (
    <>
      <p class="buttons start">
        <Toggle isOn={isMuted} icon={isMuted ? "muted" : "microphone"} label={t("Mute")} onToggle={setMuted} />
        <Toggle isOn={isDeaf} icon={isDeaf ? "deaf" : "headphones"} label={t("Hear nothing")} onToggle={setDeaf} />
        <button type="button" aria-label={t("Devices")} title={t("Devices")} onClick={() => choose(true)}>
          <Icon name="gear" />
        </button>
        <button type="button" class="danger" onClick={leave}>
          {t("Leave the call")}
        </button>
      </p>
      {silence === "may not speak" && <p class="faint">{t("You may only listen here.")}</p>}
      {silence === "no microphone" && of.state !== "joining" && (
        <p class="notice warm">
          {t("Nobody hears you: the browser gives no microphone.")}{" "}
          <button type="button" class="small" onClick={() => void openMicrophone()}>
            {t("Try again")}
          </button>
        </p>
      )}
      {of.unheard > 0 && (
        <p class="notice warm">{t("It is so full that you do not hear {n} of them.", { n: of.unheard })}</p>
      )}
      {isChoosing && <Devices onClose={() => choose(false)} />}
    </>
  )
}

function Toggle({
  isOn,
  icon,
  label,
  onToggle,
}: {
  isOn: boolean
  icon: Parameters<typeof Icon>[0]["name"]
  label: string
  onToggle: (isOn: boolean) => void
}) {
  return (
    <button type="button" aria-pressed={isOn} aria-label={label} title={label} onClick={() => onToggle(!isOn)}>
      <Icon name={icon} />
    </button>
  )
}

function Devices({ onClose }: { onClose: () => void }) {
  const { data = [] } = useResource(() => navigator.mediaDevices.enumerateDevices(), [])
  const [microphone, setMicrophone] = useState(chosenMicrophone())
  const [speaker, setSpeaker] = useState(chosenSpeaker())
  const choicesOf = (kind: MediaDeviceKind) => [
    ["", t("As the system")] as const,
    ...data
      .filter(device => device.kind === kind && device.deviceId !== "")
      .map(({ deviceId, label }, i) => [deviceId, label || t("Device {n}", { n: i + 1 })] as const),
  ]
  return (
    <Dialog title={t("Devices")} onClose={onClose}>
      <Select
        label={t("Microphone")}
        value={microphone}
        choices={choicesOf("audioinput")}
        onValue={id => {
          setMicrophone(id)
          chooseMicrophone(id).catch(sayFailed)
        }}
      />
      {"setSinkId" in HTMLMediaElement.prototype && (
        <Select
          label={t("Speaker")}
          value={speaker}
          choices={choicesOf("audiooutput")}
          onValue={id => {
            setSpeaker(id)
            chooseSpeaker(id)
          }}
        />
      )}
      <p class="buttons">
        <button type="button" onClick={onClose}>
          {t("Done")}
        </button>
      </p>
    </Dialog>
  )
}

/** The call that goes on, wherever one looks; its controls are with the channel where that is looked at. */
export function CallBar({ looksAt }: { looksAt: Snowflake | undefined }) {
  const { value: of } = call
  const known = watch(of ? `server ${of.server}` : "servers").state.servers.get(of?.server ?? "")
  if (!of) return null
  const waiting = [...of.links.values()].filter(link => link !== "connected").length
  const words =
    of.state === "joining"
      ? t("Joining …")
      : of.state === "returning"
        ? t("Connection lost. Coming back …")
        : waiting > 0
          ? count(waiting, "Connecting to {n} person …", "Connecting to {n} people …")
          : t("In the call")
  return (
    <div class="call-bar">
      <p role="status">
        <span class={`dot ${of.state === "here" && waiting === 0 ? "live" : "connecting"}`} /> {words}
      </p>
      <a class="long" href={linkToPlace({ server: of.server, channel: of.channel })}>
        {known?.channels.get(of.channel)?.name ?? ""}
      </a>
      {looksAt !== of.channel && <Controls of={of} />}
    </div>
  )
}
