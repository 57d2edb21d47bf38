import type { Language } from "./reader-language.ts"

/** What one of the pages says beside what all of them say. */
interface PageTexts {
  readonly heading: string
  readonly about: string
  readonly button: string
  readonly done: string
}

/** What the pages that a mailed link opens say, as plain text. */
export interface PersonTexts {
  readonly verifyEmail: PageTexts
  readonly resetPassword: PageTexts & { readonly password: string; readonly again: string; readonly notSame: string }
  readonly restoreEmail: PageTexts
  readonly noScript: string
  readonly accessToken: string
  /** What happens to the form. */
  readonly script: {
    readonly notWhole: string
    readonly moment: string
    readonly gated: string
    readonly over: string
    readonly anotherMail: string
    readonly writeToPeople: string
    readonly busy: string
    readonly unreachable: string
  }
  /** What the server may say, piece by piece; the pieces before are left out of those after them. */
  readonly said: readonly (readonly [english: string, own: string])[]
}

/** German speaks to people as one does to somebody one knows, as the page at /app does. */
export const personTexts: Readonly<Record<Language, PersonTexts>> = {
  en: {
    verifyEmail: {
      heading: "Verify your e-mail address",
      about:
        "Confirm it only if you made the account yourself: the person who made it can then use it under your address.",
      button: "This is my address",
      done: "Your address is verified. You can close this page and sign in.",
    },
    resetPassword: {
      heading: "Choose a new password",
      about: "It replaces the one before. You are signed out everywhere.",
      button: "Change my password",
      done: "Your password is changed. You can close this page and sign in.",
      password: "New password",
      again: "The same again",
      notSame: "The two are not the same.",
    },
    restoreEmail: {
      heading: "Take your account back",
      about:
        "Your account gets this e-mail address again. Everybody is signed out, the password is removed, and you are sent a mail to choose a new one.",
      button: "Take my account back",
      done: "Your account has this address again. Please follow the link of the mail that is on its way to you, and choose a new password.",
    },
    noScript:
      "The link's secret part never leaves your browser by itself: a script of this page has to send it. Please allow scripts here, or open the link in another browser.",
    accessToken: "Access token of this server",
    script: {
      notWhole: "This link is not whole. Please open it from the mail once more.",
      moment: "One moment …",
      gated: "This server asks for its access token, too.",
      over: "This link is no longer good: it was used, replaced by a newer one, or is too old.",
      anotherMail: "Please ask for another mail.",
      writeToPeople: "Please write to the people who run this server.",
      busy: "The server cannot do it right now. Please try again in a minute.",
      unreachable: "The server cannot be reached. Please try again in a minute.",
    },
    said: [],
  },
  de: {
    verifyEmail: {
      heading: "Bestätige deine E-Mail-Adresse",
      about:
        "Bestätige sie nur, wenn du das Konto selbst erstellt hast: Wer es erstellt hat, kann es dann unter deiner Adresse benutzen.",
      button: "Das ist meine Adresse",
      done: "Deine Adresse ist bestätigt. Du kannst diese Seite schließen und dich anmelden.",
    },
    resetPassword: {
      heading: "Wähle ein neues Passwort",
      about: "Es ersetzt das bisherige. Du wirst überall abgemeldet.",
      button: "Passwort ändern",
      done: "Dein Passwort ist geändert. Du kannst diese Seite schließen und dich anmelden.",
      password: "Neues Passwort",
      again: "Noch einmal dasselbe",
      notSame: "Die beiden sind nicht gleich.",
    },
    restoreEmail: {
      heading: "Hol dir dein Konto zurück",
      about:
        "Dein Konto bekommt diese E-Mail-Adresse wieder. Alle werden abgemeldet, das Passwort wird entfernt, und du bekommst eine E-Mail, um ein neues zu wählen.",
      button: "Mein Konto zurückholen",
      done: "Dein Konto hat diese Adresse wieder. Öffne den Link der E-Mail, die zu dir unterwegs ist, und wähle ein neues Passwort.",
    },
    noScript:
      "Der geheime Teil des Links verlässt deinen Browser nie von selbst: Ein Skript dieser Seite muss ihn senden. Bitte erlaube hier Skripte, oder öffne den Link in einem anderen Browser.",
    accessToken: "Zugangsschlüssel dieses Servers",
    script: {
      notWhole: "Dieser Link ist nicht vollständig. Bitte öffne ihn noch einmal aus der E-Mail.",
      moment: "Einen Moment …",
      gated: "Dieser Server verlangt auch seinen Zugangsschlüssel.",
      over: "Dieser Link gilt nicht mehr: Er wurde benutzt, durch einen neueren ersetzt oder ist zu alt.",
      anotherMail: "Bitte fordere eine neue E-Mail an.",
      writeToPeople: "Bitte schreib den Leuten, die diesen Server betreiben.",
      busy: "Der Server kann das gerade nicht. Bitte versuch es in einer Minute noch einmal.",
      unreachable: "Der Server ist nicht erreichbar. Bitte versuch es in einer Minute noch einmal.",
    },
    said: [
      ["Weak password: it needs", "Das Passwort ist zu schwach: Es braucht"],
      ["Weak password", "Das Passwort ist zu schwach"],
      ["at least", "mindestens"],
      ["at most", "höchstens"],
      ["characters", "Zeichen"],
      ["an upper-case letter", "einen Großbuchstaben"],
      ["a lower-case letter", "einen Kleinbuchstaben"],
      ["a digit", "eine Ziffer"],
      ["a special character", "ein Sonderzeichen"],
      ["Username or email already exists", "Der Name oder die E-Mail-Adresse ist schon vergeben"],
      ["Account scheduled for deletion", "Das Konto wird gelöscht"],
      ["Access denied: your IP address is blocked", "Kein Zugang: Deine IP-Adresse ist gesperrt"],
    ],
  },
}
