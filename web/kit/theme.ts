import { effect, signal } from "@preact/signals"

export type Theme = "system" | "light" | "dark"
const key = "starling.theme"
const kept = localStorage.getItem(key)

export const theme = signal<Theme>(kept === "light" || kept === "dark" ? kept : "system")

const systemIsDark = matchMedia("(prefers-color-scheme: dark)")
export const isDark = signal(systemIsDark.matches)

const judge = () => (isDark.value = theme.value === "system" ? systemIsDark.matches : theme.value === "dark")
systemIsDark.addEventListener("change", judge)

effect(() => {
  const { value } = theme
  if (value === "system") {
    localStorage.removeItem(key)
    delete document.documentElement.dataset["theme"]
  } else {
    localStorage.setItem(key, value)
    document.documentElement.dataset["theme"] = value
  }
  judge()
})
