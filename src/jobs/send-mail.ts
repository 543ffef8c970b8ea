import {
  claimMail,
  type ClaimedMail,
  isMailDue,
  noteFailure,
  noteSent,
  openMail,
} from "../domain/accounts/email/deliveries.ts";
import type { RenderedMail } from "../domain/accounts/email/mailer.ts";
import { failureOf, type MailFailure } from "../domain/accounts/email/outcome.ts";
import { MAIL_LANES } from "../domain/accounts/email/outbox.ts";
import type { App } from "../app.ts";
import { type Job, UNASKED_MS } from "./job.ts";
import { EVERY_KEY } from "./runner.ts";

const LANES = Array.from({ length: MAIL_LANES }, (_, lane) => String(lane));

/**
 * Key: a lane. Sends one mail and wakes itself for the next, so that a stopping process finishes one per
 * lane. The network is used between two transactions: a worker that dies there leaves a lease behind, and the
 * mail is sent once more when that has expired.
 */
export const sendMail: Job = {
  concurrency: MAIL_LANES,
  everyMs: UNASKED_MS,
  isDue: isMailDue,
  run: async (app, key) => {
    if (app.config.mail.mode === "off") return;
    const claim = await app.transact(claimMail);
    if (claim.kind === "none") return;
    for (const lane of key === EVERY_KEY ? LANES : [key]) app.queue.wakeHere("send-mail", lane);
    if (claim.kind === "mail") await deliver(app, claim.mail);
  },
};

const UNREADABLE: MailFailure = {
  kind: "give-up",
  error: "The mail can no longer be read",
  smtpResponse: undefined,
};

const deliver = async (app: App, mail: ClaimedMail): Promise<void> => {
  const opened = tryOpen(app, mail);
  if (!opened) return fail(app, mail, UNREADABLE);
  let sent;
  try {
    sent = await app.mailer.send(opened);
  } catch (err) {
    const failure = failureOf(err);
    logFailure(app, mail, failure, err);
    return fail(app, mail, failure);
  }
  await app.transact((work) => noteSent(work, mail, sent));
  app.metrics.mailsSent.inc();
};

const tryOpen = (app: App, mail: ClaimedMail): RenderedMail | undefined => {
  try {
    return openMail(app.secretBox, mail);
  } catch (err) {
    app.log.error({ err, mailId: mail.id }, "a mail cannot be read: is its key still in ENCRYPTION_KEYS?");
    return undefined;
  }
};

const fail = async (app: App, mail: ClaimedMail, failure: MailFailure): Promise<void> => {
  const status = await app.transact((work) => noteFailure(work, mail, failure));
  if (status === "FAILED") app.metrics.mailsFailed.inc();
};

/** Logs only classified parts of the error: its message may quote the mail. */
const logFailure = (
  { log }: App,
  { id, attempts }: ClaimedMail,
  failure: MailFailure,
  err: unknown,
): void => {
  const { code, originalCode } = err as { code?: string; originalCode?: string };
  const about = { mailId: id, attempts, kind: failure.kind, code, cause: originalCode };
  const line = { ...about, smtpResponse: failure.smtpResponse };
  if (failure.kind === "operator") log.error(line, "the mail server takes no mail from us: check SMTP_URL");
  else log.warn(line, "a mail was not sent");
};
