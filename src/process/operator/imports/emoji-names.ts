/**
 * Short names of emoji as Slack and Mattermost write them, of those that people use most. Others stay
 * as a name: a reaction may be one.
 */
const named: Readonly<Record<string, string>> = {
  "+1": "👍", thumbsup: "👍", "-1": "👎", thumbsdown: "👎", heart: "❤️", joy: "😂", rolling_on_the_floor_laughing: "🤣",
  blush: "😊", smile: "😄", smiley: "😃", grinning: "😀", grin: "😁", laughing: "😆", satisfied: "😆", sweat_smile: "😅",
  slightly_smiling_face: "🙂", upside_down_face: "🙃", wink: "😉", heart_eyes: "😍", kissing_heart: "😘", stuck_out_tongue: "😛",
  sunglasses: "😎", star_struck: "🤩", thinking_face: "🤔", thinking: "🤔", neutral_face: "😐", open_mouth: "😮", astonished: "😲",
  cry: "😢", sob: "😭", rage: "😡", angry: "😠", scream: "😱", sleeping: "😴", hugging_face: "🤗", shrug: "🤷", facepalm: "🤦",
  face_palm: "🤦", tada: "🎉", fire: "🔥", eyes: "👀", pray: "🙏", "100": "💯", white_check_mark: "✅", heavy_check_mark: "✔️", x: "❌",
  rocket: "🚀", raised_hands: "🙌", clap: "👏", muscle: "💪", wave: "👋", handshake: "🤝", ok_hand: "👌", sparkles: "✨", star: "⭐",
  bug: "🐛", bird: "🐦", coffee: "☕", pizza: "🍕", beers: "🍻", beer: "🍺", birthday: "🎂", cake: "🍰", warning: "⚠️", bulb: "💡",
  memo: "📝", calendar: "📅", link: "🔗", lock: "🔒", key: "🔑", question: "❓", exclamation: "❗", heavy_plus_sign: "➕",
  green_heart: "💚", blue_heart: "💙", purple_heart: "💜", yellow_heart: "💛", broken_heart: "💔", skull: "💀", ghost: "👻",
  see_no_evil: "🙈", point_up: "☝️", point_right: "👉", point_left: "👈", point_down: "👇", v: "✌️", crossed_fingers: "🤞",
  sunny: "☀️", rainbow: "🌈", snowflake: "❄️", zap: "⚡", boom: "💥", checkered_flag: "🏁", trophy: "🏆", dart: "🎯", gift: "🎁",
  robot_face: "🤖", robot: "🤖", dog: "🐶", cat: "🐱", unicorn_face: "🦄", unicorn: "🦄", party_parrot: "🦜", partying_face: "🥳",
  heavy_multiplication_x: "✖️", hourglass: "⌛", alarm_clock: "⏰", hammer: "🔨", wrench: "🔧", package: "📦", computer: "💻",
} // prettier-ignore

/** Made when it is needed, as its table takes long. The compiler does not know the flag. */
let oneToned: RegExp | undefined
const isOneToned = (text: string): boolean =>
  (oneToned ??= new RegExp("^\\p{RGI_Emoji_Modifier_Sequence}$", "v")).test(text)
const tones = ["🏻", "🏼", "🏽", "🏾", "🏿"]

/** The emoji of a name, with the tone of skin that may stand behind it; undefined: it is not among these. */
export function emojiNamed(name: string): string | undefined {
  const [, plain, tone] = /^(.+?)(?:::skin-tone-([2-6]))?$/.exec(name) ?? []
  const found = plain !== undefined && Object.hasOwn(named, plain) ? named[plain] : undefined
  if (found === undefined || tone === undefined) return found
  const toned = found.replace("\ufe0f", "") + tones[Number(tone) - 2]!
  return isOneToned(toned) ? toned : found
}
