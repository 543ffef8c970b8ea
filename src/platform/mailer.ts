import { setTimeout as delay } from "node:timers/promises";
import type { Transporter } from "nodemailer";
import type SMTPPool from "nodemailer/lib/smtp-pool";
import type { SMTPPoolOptions, SMTPPoolSentMessageInfo } from "nodemailer/lib/smtp-pool";
import type { Logger } from "pino";
import type { MailSettings } from "../config/sections.ts";
import { isMailAddress } from "../domain/accounts/email/address.ts";
import { type Mailer, type RenderedMail, SEND_MAX_MS } from "../domain/accounts/email/mail.ts";
import { onceLoaded } from "../domain/kernel/flights.ts";

/** Connections to the mail server, one for each mail that is sent concurrently. */
const CONNECTIONS = 4;
/** Idle connections are closed before mail servers and firewalls forget them. */
const IDLE_MS = 20_000;

/** Time limits for the mail server, in ms. */
export type Patience = {
  connectMs: number;
  greetingMs: number;
  /** Silence in the middle of an SMTP session. */
  silenceMs: number;
  /** Time limit for one mail as a whole. */
  sendMs: number;
  /** Time that a stopping process gives to mails being sent. */
  closeMs: number;
};
const PATIENCE: Patience = {
  connectMs: 10_000,
  greetingMs: 15_000,
  silenceMs: 20_000,
  sendMs: SEND_MAX_MS,
  closeMs: 10_000,
};
const CLOSE_LOOK_MS = 20;

type Pool = Transporter<SMTPPoolSentMessageInfo, SMTPPoolOptions>;

/**
 * Sends mails by SMTP, or prints them in development without a mail server. Connects with the first mail.
 * @throws Error for a MAIL_FROM that is no address and for an unparsable SMTP_URL
 */
export const createMailer = (settings: MailSettings, log: Logger, patience = PATIENCE): Mailer =>
  settings.mode === "smtp" ? smtpMailer(settings, patience) : printingMailer(settings, log);

const printingMailer = ({ mode }: MailSettings, log: Logger): Mailer => ({
  send: async ({ id, to, subject, text }) => {
    if (mode === "off") throw new Error("This server sends no mail");
    log.info({ to: to.address, subject, text }, "mail");
    return { messageId: id, response: "printed" };
  },
  close: async () => undefined,
});

type Sender = { name: string; address: string; host: string };

/** @throws Error for anything but `address` or `Name <address>` */
const senderOf = (from: string): Sender => {
  const found = /^(?:(?<name>[^<>\r\n]*?)\s*<)?(?<address>[^\s<>@,;]+@(?<host>[\w.-]+))>?$/.exec(from.trim());
  const { name = "", address = "", host = "" } = found?.groups ?? {};
  if (address === "") throw new Error('MAIL_FROM must be an address, such as "Laurel <laurel@example.com>"');
  return { name: name.replace(/^"(.*)"$/, "$1"), address, host };
};

const smtpMailer = ({ smtpUrl = "", from }: MailSettings, patience: Patience): Mailer => {
  const { host, ...sender } = senderOf(from);
  const options = poolOptions(smtpUrl, patience);
  let [isUsed, isClosed] = [false, false];
  const pool = onceLoaded(async (): Promise<Pool> => {
    const { createTransport } = await import("nodemailer");
    return createTransport(options);
  });
  return {
    send: async (mail) => {
      if (isClosed) throw new Error("The mailer is closed");
      checkRecipient(mail);
      isUsed = true;
      const { messageId, response } = await (
        await pool()
      ).sendMail({
        from: sender,
        to: mail.to,
        subject: mail.subject,
        text: mail.text,
        html: mail.html,
        messageId: `<${mail.id}@${host}>`,
        // Keeps autoresponders from replying.
        headers: { "Auto-Submitted": "auto-generated", "X-Auto-Response-Suppress": "All" },
        signal: AbortSignal.timeout(patience.sendMs),
      });
      return { messageId, response };
    },
    close: async () => {
      isClosed = true;
      const opened = isUsed ? await pool().catch(() => undefined) : undefined;
      if (opened) await closePool(opened, patience.closeMs);
    },
  };
};

/** Final check: only a single plain address may reach an envelope. */
const checkRecipient = ({ to }: RenderedMail): void => {
  if (!isMailAddress(to.address))
    throw Object.assign(new Error("not an address to send mail to"), { code: "EENVELOPE" });
};

const LOOPBACK = /^(localhost|127(\.\d{1,3}){3}|\[::1\])$/;

/** Uses only the URL itself: options in its query could turn the protection off. */
const poolOptions = (smtpUrl: string, patience: Patience): SMTPPoolOptions & { pool: true } => {
  const { protocol, hostname, port, username, password } = new URL(smtpUrl);
  const secure = protocol === "smtps:";
  const isLoopback = LOOPBACK.test(hostname);
  return {
    pool: true,
    host: hostname.replace(/^\[|\]$/g, ""),
    ...(port === "" ? {} : { port: Number(port) }),
    secure,
    // Passwords and links in mails must not cross a network unencrypted. Within one machine there is nothing
    // to protect, and its mail server has a self-signed certificate.
    requireTLS: !secure && !isLoopback,
    ...(isLoopback ? { tls: { rejectUnauthorized: false } } : {}),
    ...(username === "" ? {} : { auth: { user: decoded(username), pass: decoded(password) } }),
    maxConnections: CONNECTIONS,
    // The mail server may have accepted it before the connection broke; our own retry is the only one.
    maxRequeues: 0,
    idleTimeout: IDLE_MS,
    connectionTimeout: patience.connectMs,
    greetingTimeout: patience.greetingMs,
    dnsTimeout: patience.connectMs,
    socketTimeout: patience.silenceMs,
    disableFileAccess: true,
    disableUrlAccess: true,
    maxRecipients: 1,
  };
};

const decoded = (text: string): string => {
  try {
    return decodeURIComponent(text);
  } catch {
    // Without the cause, which could quote a password.
    throw new Error("SMTP_URL: write a % in the user name or password as %25");
  }
};

const closePool = async (pool: Pool, graceMs: number): Promise<void> => {
  const transport = pool.transporter as SMTPPool;
  pool.close();
  const deadline = performance.now() + graceMs;
  while (transport.pendingCount() > 0 && performance.now() < deadline) await delay(CLOSE_LOOK_MS);
  pool.close({ force: true });
};
