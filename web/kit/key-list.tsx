import { Dialog } from "./dialog.tsx"
import { Checkbox } from "./forms.tsx"
import { areKeysOn, keyGroups, switchKeys } from "./keys.ts"
import { t } from "./text.ts"

export function KeyList({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title={t("Keys")} onClose={onClose} wide>
      <div class="keys">
        {keyGroups()
          .filter(({ bindings }) => bindings.length > 0)
          .reverse()
          .map(({ title, bindings }) => (
            <section key={title}>
              <h3>{title}</h3>
              <dl>
                {bindings.map(({ key, does }) => (
                  <div key={key}>
                    <dt>
                      {key.split(" ").map(one => (
                        <kbd key={one}>{one}</kbd>
                      ))}
                    </dt>
                    <dd>{does}</dd>
                  </div>
                ))}
              </dl>
            </section>
          ))}
      </div>
      <Checkbox
        label={t("Single keys do something")}
        hint={t("Switch this off if you speak to your computer. The keyboard still reaches everything with Tab.")}
        value={areKeysOn.value}
        onValue={switchKeys}
      />
      <p class="buttons">
        <button type="button" class="strong" data-first onClick={onClose}>
          {t("Close")}
        </button>
      </p>
    </Dialog>
  )
}
