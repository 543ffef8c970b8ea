import { createHash } from "node:crypto";
import { sql } from "kysely";
import { type DomainError, invalid } from "../../kernel/errors.ts";
import { newId } from "../../kernel/ids.ts";
import type { SecretBox } from "../../kernel/secret-box.ts";
import type { Work } from "../../kernel/work.ts";
import { isMailAddress, isReleased } from "./address.ts";
import { oneLine } from "./layout.ts";
import { ownLinkBase } from "./link-base.ts";
import {
  type Mail,
  MAIL_KINDS,
  mailIsOff,
  type MailMode,
  type MailRequest,
  type MailTemplate,
} from "./mail.ts";
import type { RenderedMail } from "./mailer.ts";
import { renderMail } from "./templates/templates.ts";

export type MailParts = {
  secretBox: SecretBox;
  mode: MailMode;
  /** Base URL of links, without a trailing slash. */
  consoleUrl: string;
  /** Whether links may lead to custom domains of tenants. */
  hasDomains?: boolean;
  /** Notifies the worker of a lane, once the commit is durable. */
  wake: (lane: number) => void;
};

/** Concurrent deliveries of one process. A lane that waits for a slow server does not hold up the others. */
export const MAIL_LANES = 4;

/** The fields of a mail in the outbox; the rest is in its log. */
export type MailPayload = Pick<RenderedMail, "text" | "html"> & { toName: string };

const MINUTE_MS = 60_000;
const NAME_CHARACTERS_MAX = 100;

/** Creates the outgoing mail over the tables email_logs and email_outbox. */
export const createMail = ({ secretBox, mode, consoleUrl, hasDomains, wake }: MailParts): Mail => {
  const isOff = mode === "off";
  let turn = 0;
  return {
    isOff,
    queue: async (work, request) => {
      const refusal = refusalOf(isOff, request.to);
      if (refusal) {
        if (MAIL_KINDS[request.template] === "notice") return false;
        throw refusal;
      }
      const { template, values } = request;
      const tokenUrl = (hasDomains && (await tokenBase(work, request))) || consoleUrl;
      const { subject, text, html } = renderMail(template, values, { tokenUrl, consoleUrl });
      const id = newId();
      const payload: MailPayload = { toName: recipientName(request), text, html };
      const sealed = secretBox.seal(JSON.stringify(payload), id);
      const isNew = await insertMail(work, { ...request, id, subject, sealed });
      if (isNew && "token" in request.values) await supersede(work, request, id);
      if (isNew) work.afterCommit(() => wake(turn++ % MAIL_LANES));
      return isNew;
    },
  };
};

/** Returns where the link of a mail leads, if that is a custom domain. */
const tokenBase = async (
  work: Work,
  { tenantId, userId, template }: MailRequest<MailTemplate>,
): Promise<string | undefined> => {
  if (template !== "reset-password" || tenantId === null || !userId) return undefined;
  return ownLinkBase(work, { tenantId, userId });
};

const refusalOf = (isOff: boolean, to: string): DomainError | undefined => {
  if (isOff) return mailIsOff();
  return isMailAddress(to) && !isReleased(to)
    ? undefined
    : invalid("email", "is not an address to send mail to", "EMAIL_INVALID");
};

/** Only templates with a greeting have the recipient's name. */
const recipientName = ({ template, values }: MailRequest<MailTemplate>): string =>
  template !== "member-pending" && "name" in values ? oneLine(values.name, NAME_CHARACTERS_MAX) : "";

/** Returns the deduplication key of a mail; a hash, because the values may contain a token. */
const dedupeKey = ({ now }: Work, { template, to, values, tenantId }: MailRequest<MailTemplate>): string =>
  createHash("sha256")
    .update(JSON.stringify([template, tenantId, to.toLowerCase(), values, minuteOf(now)]))
    .digest("base64url");
const minuteOf = (now: Date): number => Math.floor(now.getTime() / MINUTE_MS);

type NewMail = MailRequest<MailTemplate> & { id: string; subject: string; sealed: string };

const insertMail = async (work: Work, mail: NewMail): Promise<boolean> => {
  const now = work.now.toISOString();
  const { rows } = await sql`
    with log as (
      insert into email_logs
        (id, tenant_id, user_id, "to", template, subject, status, dedupe_key, created_at)
      values (${mail.id}::uuid, ${mail.tenantId}::uuid, ${mail.userId}::uuid, ${mail.to}, ${mail.template},
        ${mail.subject}, 'QUEUED', ${dedupeKey(work, mail)}, ${now}::timestamptz)
      on conflict (dedupe_key) do nothing
      returning id, tenant_id)
    insert into email_outbox (log_id, tenant_id, payload, next_attempt_at)
    select id, tenant_id, ${mail.sealed}, ${now}::timestamptz from log
    returning log_id`.execute(work.db);
  return rows.length > 0;
};

/**
 * Deletes unsent mails whose links have been invalidated by a newer request: they would arrive after it, once
 * the mail server is available again. One that is being sent is kept.
 */
const supersede = async (
  { db }: Work,
  { template, to, tenantId }: MailRequest<MailTemplate>,
  id: string,
): Promise<void> => {
  await sql`
    with old as (
      select o.log_id from email_outbox o join email_logs l on l.id = o.log_id
      where l.template = ${template} and l."to" = ${to} and l.tenant_id is not distinct from ${tenantId}::uuid
        and o.locked_until is null and o.keep_until is null and l.id <> ${id}::uuid
      for update of o skip locked),
    gone as (delete from email_outbox o using old where o.log_id = old.log_id returning o.log_id)
    update email_logs l set status = 'SUPPRESSED', error = 'A newer mail took its place'
    from gone where l.id = gone.log_id`.execute(db);
};
