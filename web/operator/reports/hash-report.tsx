import { useState } from "preact/hooks"
import { Dialog } from "../../kit/dialog.tsx"
import { Form, TextArea } from "../../kit/forms.tsx"
import { Time } from "../../kit/time.tsx"
import { Facts } from "../../kit/states.tsx"
import { t } from "../../kit/text.ts"
import { attempt, say } from "../../kit/toasts.tsx"
import { call } from "../client.ts"
import { UserLink } from "../sanctions.tsx"
import type { HashReport } from "../wire.ts"
import type { PaneOptions } from "./person-report.tsx"
import { Preview } from "./preview.tsx"
import { queues } from "./queues.ts"
import { StatusBadge } from "./status-badge.tsx"

export function HashReportPane({ report, isActing, onActed, onClose }: PaneOptions<HashReport>) {
  return (
    <article class="card" aria-label={t("The report")}>
      <h2>
        {report.reason} <StatusBadge status={report.status} />
      </h2>
      <Facts
        of={[
          [t("File"), <code class="long">{report.hash_value}</code>],
          ...(report.phash_value
            ? [[t("Look of the picture"), <code class="long">{report.phash_value}</code>] as const]
            : []),
          [t("Sent by"), report.uploader_id ? <UserLink id={report.uploader_id} /> : t("not known")],
          [t("Reported by"), <UserLink id={report.reporter_id} name={report.reporter_username} />],
          [
            t("Weight"),
            report.counts
              ? t("It counts: the reporter could read a message with this file")
              : t("The reporter could read no message with this file"),
          ],
          [t("When"), <Time at={report.reported_at} />],
          ...(report.details ? [[t("Details"), <q class="text">{report.details}</q>] as const] : []),
          ...(report.reviewed_at === null ? [] : [[t("Decided"), <Time at={report.reviewed_at} />] as const]),
          ...(report.admin_notes ? [[t("Notes"), report.admin_notes] as const] : []),
        ]}
      />
      {report.attachment_url !== null && <Preview key={report.id} url={report.attachment_url} />}
      {isActing && <BlockDialog report={report} onActed={onActed} onClose={onClose} />}
    </article>
  )
}

function BlockDialog({ report, onActed, onClose }: Omit<PaneOptions<HashReport>, "isActing">) {
  const [notes, setNotes] = useState("")
  return (
    <Dialog title={t("Block this file?")} onClose={onClose}>
      <Form
        does={t("Block the file")}
        isDangerous
        onCancel={onClose}
        onSubmit={async () => {
          await queues.files.review(report.id, { action: "block", ...(notes && { notes }) }, {})
          say(t("The file is blocked for everybody."), async () => {
            await attempt(
              () => call("DELETE /blocked-hashes/:hash_value", { params: { hash_value: report.hash_value } }),
              t("The file is not blocked any more."),
            )
          })
          onActed()
        }}
      >
        <p>
          {t("Nobody can send this file again.")}{" "}
          {report.block_uploader && report.uploader_id
            ? t("The reporter asked for it: the one account that sent it can send no more files, either.")
            : ""}
        </p>
        <TextArea label={t("Reason, for operators")} value={notes} onValue={setNotes} maxLength={2_000} />
      </Form>
    </Dialog>
  )
}
