import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type Server, type Socket } from "node:net";
import type { SMTPServerOptions } from "smtp-server";
import type { RenderedMail } from "../../src/domain/accounts/email/mail.ts";
import { failureOf } from "../../src/domain/accounts/email/deliveries.ts";
import { newId } from "../../src/domain/kernel/ids.ts";
import { createLog } from "../../src/log.ts";
import { createMailer } from "../../src/platform/mailer.ts";
import { eventually } from "../support/eventually.ts";
import { HOSTILE_ADDRESSES } from "../support/mail/mail-app.ts";
import { type SmtpFaults, startSmtp, type TestSmtp } from "../support/mail/mailbox.ts";

const FROM = '"Laurel Server" <laurel@mail.example.com>';
const PATIENCE = { connectMs: 2_000, greetingMs: 300, silenceMs: 300, sendMs: 2_000, closeMs: 300 };
const aMail = (change: Partial<RenderedMail> = {}): RenderedMail => ({
  id: newId(),
  to: { name: "Ada", address: "ada@example.com" },
  subject: "Hello",
  text: "Text",
  html: "<p>HTML</p>",
  ...change,
});
const log = createLog({ logLevel: "silent" });
const failureKind = async (sending: Promise<unknown>): Promise<string> => {
  try {
    await sending;
  } catch (error) {
    return failureOf(error).kind;
  }
  return "sent";
};

describe("the mail server", () => {
  const closers: (() => Promise<void>)[] = [];

  const aMailer = (smtpUrl: string, patience = PATIENCE) => {
    const mailer = createMailer({ mode: "smtp", smtpUrl, from: FROM }, log, patience);
    closers.push(() => mailer.close());
    return mailer;
  };
  const aServer = async (...args: [SMTPServerOptions?, SmtpFaults?, string?]): Promise<TestSmtp> => {
    const server = await startSmtp(...args);
    closers.push(() => server.close());
    return server;
  };
  /** Takes connections and answers as told. */
  const aListener = async (answer: (socket: Socket) => void): Promise<string> => {
    const sockets = new Set<Socket>();
    const server: Server = createServer((socket) => {
      sockets.add(socket);
      socket.on("error", () => undefined);
      answer(socket);
    }).listen(0, "127.0.0.1");
    await once(server, "listening");
    closers.push(async () => {
      for (const socket of sockets) socket.destroy();
      server.close();
    });
    return `smtp://127.0.0.1:${(server.address() as { port: number }).port}`;
  };

  afterEach(async () => {
    for (const close of closers.splice(0).toReversed()) await close();
  });

  it("gets text and HTML, from us, to one, under the log's id", async () => {
    const server = await aServer();
    const mail = aMail();
    const sent = await aMailer(server.smtpUrl).send(mail);
    assert.equal(sent.messageId, `<${mail.id}@mail.example.com>`);
    assert.match(sent.response, /^250/);
    const [arrived] = server.arrived;
    assert.equal(server.arrived.length, 1);
    const { messageId, from, to, text, html, headers } = arrived!.mail;
    assert.equal(messageId, sent.messageId);
    assert.deepEqual(from, { name: "Laurel Server", address: "laurel@mail.example.com" });
    assert.deepEqual(to, [{ name: "Ada", address: "ada@example.com" }]);
    assert.equal(text?.trim(), "Text");
    assert.equal(html?.trim(), "<p>HTML</p>");
    assert.equal(headers.find(({ key }) => key === "auto-submitted")?.value, "auto-generated");
  });

  it("sees no further header and no further recipient, whatever stands in subject and name", async () => {
    const server = await aServer();
    const mailer = aMailer(server.smtpUrl);
    for (const text of [
      "Hi\r\nBcc: victim@x.test",
      "Hi\nX-Evil: 1",
      "Hi\r\n\r\nbody",
      'a" <victim@x.test>',
      "a, victim@x.test",
      "a> RCPT TO:<victim@x.test",
    ])
      await mailer.send(aMail({ subject: text, to: { name: text, address: "ada@example.com" } }));
    assert.equal(server.arrived.length, 6);
    for (const { to, mail } of server.arrived) {
      assert.equal(to, "ada@example.com");
      assert.deepEqual(
        mail.to?.map(({ address }) => address),
        ["ada@example.com"],
      );
      const names = mail.headers.map(({ key }) => key);
      assert.ok(!names.includes("bcc") && !names.includes("x-evil"), names.join(" "));
      assert.equal(mail.text?.trim(), "Text");
    }
  });

  it("is not even asked about hostile addresses", async () => {
    const server = await aServer();
    const mailer = aMailer(server.smtpUrl);
    for (const address of HOSTILE_ADDRESSES)
      assert.equal(
        await failureKind(mailer.send(aMail({ to: { name: "Ada", address } }))),
        "give-up",
        address,
      );
    assert.equal(server.connections(), 0);
    assert.equal(server.arrived.length, 0);
  });

  it("is never sent a file or a page of ours, whatever the text looks like", async () => {
    const server = await aServer();
    const path = import.meta.filename;
    const hostile = { path } as unknown as string;
    const page = { href: "http://127.0.0.1:9/" } as unknown as string;
    for (const change of [{ text: hostile }, { html: hostile }, { text: page }, { html: page }])
      assert.equal(await failureKind(aMailer(server.smtpUrl).send(aMail(change))), "give-up");
    await aMailer(server.smtpUrl).send(aMail({ text: path, html: `<img src="file://${path}">` }));
    assert.equal(server.arrived.length, 1);
    assert.equal(server.arrived[0]!.mail.attachments.length, 0);
  });

  it("is trusted with nothing over a network that it does not encrypt", async () => {
    const server = await aServer(undefined, {}, "0.0.0.0");
    assert.equal(await failureKind(aMailer(server.smtpUrl).send(aMail())), "operator");
    assert.equal(server.arrived.length, 0);
  });

  it("is trusted with nothing over a network under a certificate that nobody vouches for", async () => {
    for (const secure of [false, true]) {
      const server = await aServer({ secure }, {}, "0.0.0.0");
      const smtpUrl = server.smtpUrl.replace("smtp:", secure ? "smtps:" : "smtp:");
      assert.notEqual(await failureKind(aMailer(smtpUrl).send(aMail())), "sent");
      const insisting = `${smtpUrl}?tls.rejectUnauthorized=false&ignoreTLS=true`;
      assert.notEqual(await failureKind(aMailer(insisting).send(aMail())), "sent");
      assert.equal(server.arrived.length, 0);
    }
  });

  it("of the same machine may have a certificate of its own making", async () => {
    for (const secure of [false, true]) {
      const server = await aServer({ secure });
      const smtpUrl = server.smtpUrl.replace("smtp:", secure ? "smtps:" : "smtp:");
      await aMailer(smtpUrl).send(aMail());
      assert.equal(server.arrived.length, 1);
    }
  });

  it("gets the user and password of SMTP_URL as meant, and a wrong one is the operator's", async () => {
    const onAuth: SMTPServerOptions["onAuth"] = ({ username, password }, _session, done) =>
      username === "laurel@example.com" && password === "p@ss:w/rd%"
        ? done(null, { user: username })
        : done(new Error("no"));
    const server = await aServer({
      authOptional: false,
      allowInsecureAuth: true,
      hideSTARTTLS: true,
      onAuth,
    });
    const withUser = (password: string) =>
      server.smtpUrl.replace("//", `//${encodeURIComponent("laurel@example.com")}:${password}@`);
    await aMailer(withUser(encodeURIComponent("p@ss:w/rd%"))).send(aMail());
    assert.equal(server.arrived.length, 1);
    assert.equal(await failureKind(aMailer(withUser("wrong")).send(aMail())), "operator");
    assert.equal(server.arrived.length, 1);
  });

  it("that cannot be reached is tried later", async () => {
    const server = await startSmtp();
    await server.close();
    assert.equal(await failureKind(aMailer(server.smtpUrl).send(aMail())), "retry");
  });

  it("that says nothing is given up on", async () => {
    const smtpUrl = await aListener(() => undefined);
    assert.equal(await failureKind(aMailer(smtpUrl).send(aMail())), "retry");
  });

  it("that hangs up before it answers is not sent the mail again by the same attempt", async () => {
    const server = await aServer(undefined, { hold: () => new Promise(() => undefined) });
    assert.equal(await failureKind(aMailer(server.smtpUrl).send(aMail())), "retry");
    assert.equal(server.arrived.length, 1);
  });

  it("finishes a mail in hand when the mailer is closed, for no longer than agreed", async () => {
    let answer = (): void => undefined;
    const held = new Promise<void>((resolve) => (answer = resolve));
    const server = await aServer(undefined, { hold: () => held });
    const patient = { ...PATIENCE, silenceMs: 60_000, sendMs: 60_000 };
    const finishing = aMailer(server.smtpUrl, { ...patient, closeMs: 10_000 });
    const hanging = aMailer(server.smtpUrl, patient);
    const [first, second] = [failureKind(hanging.send(aMail())), failureKind(finishing.send(aMail()))];
    await eventually(() => server.arrived.length === 2);
    await hanging.close();
    assert.equal(await first, "retry");
    const closing = finishing.close();
    answer();
    assert.equal(await second, "sent");
    await closing;
  });

  it("is known from the settings at the start, or the start fails without quoting them", () => {
    const settings = { mode: "smtp", smtpUrl: "smtp://127.0.0.1:25" } as const;
    for (const from of ["nobody", "a@b.example, c@d.example", "A <a@b.example>\r\nBcc: x@y.example", ""])
      assert.throws(() => createMailer({ ...settings, from }, log), /MAIL_FROM/);
    const smtpUrl = "smtp://user:hunter2%@127.0.0.1:25";
    assert.throws(
      () => createMailer({ mode: "smtp", from: FROM, smtpUrl }, log),
      (error: Error) => /SMTP_URL/.test(error.message) && !/hunter2/.test(error.message),
    );
  });
});
