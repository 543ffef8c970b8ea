import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import PostalMime, { type Email } from "postal-mime";
import { SMTPServer, type SMTPServerOptions } from "smtp-server";
import { sql } from "kysely";
import { eventually } from "../eventually.ts";
import type { App } from "../../../src/app.ts";

/** A mail as a server got it, with whom the envelope named. */
export type Arrived = { to: string; mail: Email; source: string };

/** A mail server of a test's own. */
export type TestSmtp = {
  port: number;
  smtpUrl: string;
  /** What has come whole, also what is not answered yet. */
  arrived: Arrived[];
  /** Open connections. */
  connections: () => number;
  close: () => Promise<void>;
};

/** Makes a test's server misbehave. */
export type SmtpFaults = {
  /** Waited for after a mail has come and before the server says that it has it. */
  hold?: (to: string) => Promise<void> | undefined;
  /** The status and text that an address is refused with. */
  refuse?: (to: string) => { status: number; message: string } | undefined;
};

/** Starts a mail server without TLS and passwords, unless the options say otherwise. */
export const startSmtp = async (
  options: SMTPServerOptions = { disabledCommands: ["STARTTLS", "AUTH"] },
  { hold = () => undefined, refuse = () => undefined }: SmtpFaults = {},
  host = "127.0.0.1",
): Promise<TestSmtp> => {
  const arrived: Arrived[] = [];
  const smtp = new SMTPServer({
    authOptional: true,
    // Else it warns of its own certificate.
    logger: false,
    onRcptTo: ({ address }, _session, done) => {
      const refused = refuse(address);
      if (!refused) return done();
      done(Object.assign(new Error(refused.message), { responseCode: refused.status }));
    },
    onData: (stream, session, done) => {
      const recipients = session.envelope.rcptTo.map(({ address }) => address);
      const keep = async (): Promise<void> => {
        const source = await text(stream);
        const mail = await PostalMime.parse(source);
        for (const to of recipients) arrived.push({ to, mail, source });
        await hold(recipients[0] ?? "");
      };
      const answer = async (): Promise<void> => {
        try {
          await keep();
        } catch (error) {
          return done(error as Error);
        }
        done();
      };
      void answer();
    },
    ...options,
  });
  // Clients that hang up in the middle are what tests are about.
  smtp.on("error", () => undefined);
  const listener = smtp.listen(0, host);
  await once(listener, "listening");
  listener.unref();
  const { port } = listener.address() as AddressInfo;
  return {
    port,
    smtpUrl: `smtp://${host}:${port}`,
    arrived,
    connections: () => smtp.connections.size,
    close: () => new Promise((resolve) => smtp.close(() => resolve())),
  };
};

/** Addresses that the server of this process refuses, with the code that it says. */
const refusals = new Map<string, number>();
let server: Promise<TestSmtp> | undefined;
let arrived: Arrived[] = [];

/** The SMTP server of this process: keeps every mail. Ends with the process. */
export const startMailbox = async (): Promise<{ smtpUrl: string }> => {
  server ??= startSmtp(undefined, {
    refuse: (to) => {
      const status = refusals.get(to);
      return status === undefined ? undefined : { status, message: "refused by the test" };
    },
  });
  const started = await server;
  ({ arrived } = started);
  return started;
};

/** Makes the server answer `code` (such as 450 or 550) for an address; undefined takes that back. */
export const refuseMail = (address: string, code: number | undefined): void => {
  if (code === undefined) refusals.delete(address);
  else refusals.set(address, code);
};

/** What has arrived for an address, oldest first. */
export const mailsTo = (address: string): Email[] =>
  arrived.filter(({ to }) => to === address).map(({ mail }) => mail);

/** The newest mail to an address whose subject matches, once it is there. */
export const aMailTo = (address: string, subject: RegExp): Promise<Email> =>
  eventually(() => {
    const found = mailsTo(address).findLast((mail) => subject.test(mail.subject ?? ""));
    if (!found) throw new Error(`no mail to ${address} with ${subject}`);
    return found;
  });

/** The `token` of the link in a mail. */
export const tokenIn = (mail: Email): string => {
  const token = /[?&]token=([\w-]+)/.exec(mail.text ?? "")?.[1];
  if (token === undefined) throw new Error(`no token in the mail: ${mail.text}`);
  return token;
};

/** The templates of the mails to an address, oldest first, as the log has them. */
export const mailedTo = ({ transact }: Pick<App, "transact">, to: string): Promise<string[]> =>
  transact(async ({ db }) => {
    const { rows } = await sql<{ template: string }>`
      select template from email_logs where "to" = ${to} order by created_at, id`.execute(db);
    return rows.map(({ template }) => template);
  });
