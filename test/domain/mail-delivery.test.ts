import assert from "node:assert/strict";
import { sql } from "kysely";
import {
  claimMail,
  failureOf,
  LEASE_MS,
  noteFailure,
  noteSent,
} from "../../src/domain/accounts/email/deliveries.ts";
import type { MailSent, RenderedMail } from "../../src/domain/accounts/email/mail.ts";
import { createSecretBox } from "../../src/domain/kernel/secret-box.ts";
import { anAddress, aToken, mailApp } from "../support/mail/mail-app.ts";
import { pluck } from "../support/pluck.ts";

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

describe("the outbox of mails", () => {
  const { mail, outbox } = mailApp();

  /** Every table that holds the text somewhere. */
  const tablesWith = (text: string): Promise<string[]> =>
    mail.app.transact(async ({ db }) => {
      const tables = await sql<{ name: string }>`
        select relname as name from pg_class
        where relnamespace = 'public'::regnamespace and relkind in ('r', 'p')`.execute(db);
      const found: string[] = [];
      for (const { name } of tables.rows) {
        const { rows } = await sql`
          select 1 from ${sql.table(name)} t where t::text like ${`%${text}%`} limit 1`.execute(db);
        if (rows.length > 0) found.push(name);
      }
      return found;
    });

  it("sends what has been committed, notes it and keeps nothing of what it says", async () => {
    const [to, token] = [anAddress(), aToken()];
    assert.equal(await mail.verify(to, token), true);
    assert.equal((await mail.logOf(to)).status, "QUEUED");
    await mail.sendNext();
    const { id, status, attempts, providerMessageId, smtpResponse, sentAt } = await mail.logOf(to);
    assert.deepEqual([status, attempts, sentAt], ["SENT", 1, mail.app.clock()]);
    assert.equal(providerMessageId, `<${id}@test.example>`);
    assert.match(smtpResponse ?? "", /^250/);
    assert.equal(mail.arrivedAt(to)[0]!.mail.messageId, providerMessageId);
    assert.match(mail.arrivedAt(to)[0]!.mail.text ?? "", new RegExp(token));
    assert.equal(await outbox(), 0);
  });

  it("sends nothing of a transaction that fails", async () => {
    const to = anAddress();
    const failed = mail.app.transact(async (work) => {
      const values = { name: "Ada", token: aToken() };
      await mail.app.mail.queue(work, { template: "verify-email", to, values, tenantId: null, userId: null });
      throw new Error("undone");
    });
    await assert.rejects(failed, /undone/);
    await mail.sendNext();
    assert.equal(mail.arrivedAt(to).length, 0);
    await assert.rejects(mail.logOf(to), /no mail/);
  });

  it("shows a token to nobody who reads the database or the log, whatever becomes of the mail", async () => {
    const [waits, fails, sent] = [anAddress(), anAddress(), anAddress()];
    const tokens = [aToken(), aToken(), aToken()];
    mail.refuse(waits, 451, `https://c.example/verify-email?token=${tokens[0]} is slow`);
    mail.refuse(fails, 554, `https://c.example/verify-email?token=${tokens[1]} is listed`);
    await mail.verify(waits, tokens[0]);
    await mail.verify(fails, tokens[1]);
    await mail.verify(sent, tokens[2]);
    for (const token of tokens) assert.deepEqual(await tablesWith(token), []);
    for (let i = 0; i < 3; i++) await mail.sendNext();
    const logs = [await mail.logOf(waits), await mail.logOf(fails), await mail.logOf(sent)];
    assert.deepEqual(pluck(logs, "status"), ["QUEUED", "FAILED", "SENT"]);
    for (const token of tokens) {
      assert.deepEqual(await tablesWith(token), []);
      assert.ok(!mail.lines.some((line) => line.includes(token)));
    }
    assert.deepEqual(await tablesWith(waits), ["email_logs"], "the search finds what is there");
  });

  it("gives one mail to one worker, and to another only when the lease has run out", async () => {
    const to = anAddress();
    await mail.verify(to);
    const first = await mail.app.transact(claimMail);
    assert.ok(first.kind === "mail");
    assert.equal((await mail.logOf(to)).status, "SENDING");
    mail.pass(LEASE_MS - 1);
    assert.deepEqual(await mail.app.transact(claimMail), { kind: "none" });
    mail.pass(1);
    const second = await mail.app.transact(claimMail);
    assert.ok(second.kind === "mail");
    assert.deepEqual([second.mail.id, second.mail.attempts], [first.mail.id, 2]);
    // The first one was only slow: what it could not send is not its to note any more.
    const late = await mail.app.transact((work) =>
      noteFailure(work, first.mail, failureOf({ responseCode: 550 })),
    );
    assert.equal(late, "lost");
    assert.equal((await mail.logOf(to)).status, "SENDING");
    const sent: MailSent = { messageId: "<1@test.example>", response: "250 OK" };
    await mail.app.transact((work) => noteSent(work, second.mail, sent));
    assert.equal((await mail.logOf(to)).status, "SENT");
    assert.equal(await outbox(), 0);
  });

  it("speaks to the mail server outside of transactions", async () => {
    const to = anAddress();
    await mail.verify(to);
    const seen: RenderedMail[] = [];
    const send = async (rendered: RenderedMail): Promise<MailSent> => {
      // Asserts, were a transaction open.
      await mail.app.transact(async () => undefined);
      seen.push(rendered);
      return { messageId: "<1@test.example>", response: "250 OK" };
    };
    await mail.sendNext({ ...mail.app, mailer: { ...mail.app.mailer, send } });
    assert.deepEqual(
      seen.map(({ to: { name, address } }) => [name, address]),
      [["Ada", to]],
    );
    assert.equal((await mail.logOf(to)).status, "SENT");
  });

  it("takes the very same mail within a minute once, and one with another token each time", async () => {
    const to = anAddress();
    mail.pass(MINUTE_MS - (mail.app.clock().getTime() % MINUTE_MS));
    assert.deepEqual([await mail.notice(to), await mail.notice(to)], [true, false]);
    assert.deepEqual([await mail.notice(to.toUpperCase()), await mail.notice(anAddress())], [false, true]);
    assert.deepEqual([await mail.verify(to), await mail.verify(to)], [true, true]);
    mail.pass(MINUTE_MS);
    assert.equal(await mail.notice(to), true);
  });

  it("sends of several mails with a token only the newest, also if the server was away", async () => {
    const [to, other] = [anAddress(), anAddress()];
    mail.refuse(to, 450);
    const tokens = [aToken(), aToken(), aToken()];
    await mail.verify(to, tokens[0]);
    await mail.sendNext();
    await mail.verify(to, tokens[1]);
    await mail.verify(other);
    await mail.queue("reset-password", to, { name: "Ada", token: aToken() });
    await mail.verify(to, tokens[2]);
    mail.accept();
    mail.pass(HOUR_MS);
    for (let i = 0; i < 5; i++) await mail.sendNext();
    const texts = mail.arrivedAt(to).map((one) => one.mail.text ?? "");
    assert.deepEqual(texts.filter((text) => text.includes("/verify-email")).length, 1);
    assert.ok(texts.some((text) => text.includes(tokens[2]!)));
    assert.ok(texts.some((text) => text.includes("/reset-password")));
    assert.equal(mail.arrivedAt(other).length, 1);
  });

  it("fails a mail that can no longer be read, and goes on with the next", async () => {
    const [unreadable, fine] = [anAddress(), anAddress()];
    await mail.verify(unreadable);
    mail.pass(1);
    await mail.verify(fine);
    const secretBox = createSecretBox(["a key that the server has been given instead"]);
    await mail.sendNext({ ...mail.app, secretBox });
    assert.equal((await mail.logOf(unreadable)).status, "FAILED");
    assert.ok(mail.lines.some((line) => line.includes("ENCRYPTION_KEYS")));
    await mail.sendNext();
    assert.equal((await mail.logOf(fine)).status, "SENT");
  });

  it("counts what was sent and what was given up", async () => {
    const countOf = async (name: string): Promise<number> => {
      const line = new RegExp(`^${name} (\\d+)$`, "m").exec(await mail.app.metrics.registry.metrics());
      return Number(line?.[1]);
    };
    const counts = async () => [
      await countOf("laurel_mails_sent_total"),
      await countOf("laurel_mails_failed_total"),
    ];
    const [sent, failed] = (await counts()) as [number, number];
    const [to, refused, later] = [anAddress(), anAddress(), anAddress()];
    mail.refuse(refused, 554);
    mail.refuse(later, 450);
    for (const address of [to, refused, later]) await mail.verify(address);
    for (let i = 0; i < 3; i++) await mail.sendNext();
    assert.deepEqual(await counts(), [sent + 1, failed + 1]);
  });
});
