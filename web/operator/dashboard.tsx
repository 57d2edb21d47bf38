import "../kit/page.css"
import "./operator.css"
import { render } from "preact"
import { pageAt, session } from "./client.ts"
import { Shell } from "./shell.tsx"

if (session.token.value === null) location.replace(pageAt("login") + location.hash)
else render(<Shell />, document.getElementById("page")!)
