import { once } from "node:events";
import { text } from "node:stream/consumers";
import PostalMime, { type Email } from "postal-mime";
import { SMTPServer } from "smtp-server";
import { eventually } from "./eventually.ts";

const mails: { to: string; mail: Email }[] = [];
/** Addresses that the server refuses, with the code that it says. */
const refusals = new Map<string, number>();
let server: Promise<{ smtpUrl: string }> | undefined;

/** The SMTP server of this process: keeps every mail. Ends with the process. */
export const startMailbox = (): Promise<{ smtpUrl: string }> => {
  server ??= start();
  return server;
};

const start = async (): Promise<{ smtpUrl: string }> => {
  const smtp = new SMTPServer({
    authOptional: true,
    disabledCommands: ["STARTTLS", "AUTH"],
    onRcptTo: ({ address }, _session, done) => {
      const responseCode = refusals.get(address);
      done(
        responseCode === undefined ? null : Object.assign(new Error("refused by the test"), { responseCode }),
      );
    },
    onData: (stream, session, done) => {
      void text(stream).then(async (source) => {
        const mail = await PostalMime.parse(source);
        for (const { address } of session.envelope.rcptTo) mails.push({ to: address, mail });
        done();
      }, done);
    },
  });
  const listener = smtp.listen(0, "127.0.0.1");
  await once(listener, "listening");
  listener.unref();
  const { port } = listener.address() as { port: number };
  return { smtpUrl: `smtp://127.0.0.1:${port}` };
};

/** Makes the server answer `code` (such as 450 or 550) for an address; undefined takes that back. */
export const refuseMail = (address: string, code: number | undefined): void => {
  if (code === undefined) refusals.delete(address);
  else refusals.set(address, code);
};

/** What has arrived for an address, oldest first. */
export const mailsTo = (address: string): Email[] =>
  mails.filter(({ to }) => to === address).map(({ mail }) => mail);

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
