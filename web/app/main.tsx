import "../kit/page.css"
import "./app.css"
import "./server-settings/server-settings.css"
import { render } from "preact"
import { Questions } from "../kit/dialog.tsx"
import "../kit/theme.ts"
import { Toasts } from "../kit/toasts.tsx"
import { Entry } from "./entry.tsx"
import { Invitation, inviteInPath } from "./invite.tsx"
import { speakChosen } from "./language.ts"
import { registration } from "./offline/registration.ts"
import { goOn, session } from "./session.ts"
import { Shell } from "./shell.tsx"

goOn()
registration().catch(() => {})

function App() {
  const { value: signedIn } = session
  if (signedIn) return <Shell key={signedIn.client.token} />
  return (
    <>
      {inviteInPath() !== undefined && <Invitation />}
      <Entry />
      <Questions />
      <Toasts />
    </>
  )
}

const show = () => render(<App />, document.getElementById("page")!)
speakChosen().then(show, show)
