import { Select } from "../../kit/forms.tsx"
import { t } from "../../kit/text.ts"
import { theme } from "../../kit/theme.ts"
import { choice, choose, languages, type Choice } from "../language.ts"

export const Look = () => (
  <section class="card">
    <h2>{t("Look")}</h2>
    <Select
      label={t("Colours")}
      value={theme.value}
      onValue={value => (theme.value = value)}
      choices={[
        ["system", t("As the system")],
        ["light", t("Light")],
        ["dark", t("Dark")],
      ]}
    />
    <Select<Choice>
      label={t("Language")}
      value={choice.value}
      onValue={choose}
      choices={[
        ["browser", t("As the browser")],
        ["en", languages.en],
        ["de", languages.de],
      ]}
    />
  </section>
)
