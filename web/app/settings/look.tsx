import { Select } from "../../kit/forms.tsx"
import { t } from "../../kit/text.ts"
import { theme } from "../../kit/theme.ts"

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
  </section>
)
