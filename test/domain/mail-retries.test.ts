import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import type { App } from "../../src/app.ts";
import { claimMail } from "../../src/domain/accounts/email/deliveries.ts";
import { resendEmail } from "../../src/domain/accounts/email/mail.ts";
import { pruneEnded } from "../../src/jobs/sweeps.ts";
import { anAddress, mailApp } from "../support/mail/mail-app.ts";

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
const INVALID_STATE = { code: "CONFLICT", reason: "INVALID_STATE" };

describe("mails that the mail server does not take", () => {
  const { mail, outbox } = mailApp();

  /** The same app with a mailer that fails as told. */
  const failing = (error: Error): App => {
    const send = async (): Promise<never> => {
      throw error;
    };
    return { ...mail.app, mailer: { ...mail.app.mailer, send } };
  };

  it("tries again after 1 minute, 5, 30, 2 hours and 6 when asked to come back, then gives up", async () => {
    const to = anAddress();
    mail.refuse(to, 450);
    await mail.verify(to);
    for (const waitMs of [MINUTE_MS, 5 * MINUTE_MS, 30 * MINUTE_MS, 2 * HOUR_MS, 6 * HOUR_MS]) {
      await mail.sendNext();
      const { status, attempts } = await mail.logOf(to);
      assert.equal(status, "QUEUED");
      mail.pass(waitMs - 1);
      await mail.sendNext();
      assert.equal((await mail.logOf(to)).attempts, attempts, "too early");
      mail.pass(1);
    }
    await mail.sendNext();
    const { status, attempts, error } = await mail.logOf(to);
    assert.deepEqual([status, attempts], ["FAILED", 6]);
    assert.match(error ?? "", /450/);
    mail.pass(DAY_MS);
    await mail.sendNext();
    assert.equal((await mail.logOf(to)).attempts, 6);
  });

  it("sends nothing to an address for 30 days after the server said that it does not exist", async () => {
    for (const status of [550, 551, 553]) {
      const to = anAddress();
      mail.refuse(to, status);
      await mail.verify(to);
      await mail.sendNext();
      assert.equal((await mail.logOf(to)).status, "FAILED");
      mail.accept(to);
      await mail.notice(to.toUpperCase());
      await mail.verify(to);
      await mail.sendNext();
      await mail.sendNext();
      for (const log of [await mail.logOf(to), await mail.logOf(to.toUpperCase())])
        assert.deepEqual([log.status, log.attempts], ["SUPPRESSED", 0]);
      mail.pass(30 * DAY_MS);
      await mail.notice(to);
      await mail.sendNext();
      assert.equal((await mail.logOf(to)).status, "SENT");
      assert.equal(mail.arrivedAt(to).length, 1);
    }
  });

  it("holds no other refusal against the address", async () => {
    const to = anAddress();
    mail.refuse(to, 554);
    await mail.verify(to);
    await mail.sendNext();
    assert.equal((await mail.logOf(to)).status, "FAILED");
    mail.accept(to);
    await mail.notice(to);
    await mail.sendNext();
    assert.equal((await mail.logOf(to)).status, "SENT");
  });

  it("keeps mails while the mail server takes none from us, and tells the operator", async () => {
    const to = anAddress();
    await mail.verify(to);
    const denied = failing(Object.assign(new Error("no"), { code: "EAUTH", responseCode: 535 }));
    for (let i = 0; i < 10; i++) {
      await mail.sendNext(denied);
      mail.pass(30 * MINUTE_MS);
    }
    const { status, attempts, error } = await mail.logOf(to);
    assert.deepEqual([status, attempts], ["QUEUED", 10]);
    assert.doesNotMatch(error ?? "", /535|EAUTH|password/);
    const told = mail.lines.filter((line) => line.includes("check SMTP_URL") && line.includes('"error"'));
    assert.ok(told.length >= 10);
    // The server asks to come back: that is the first time, not the eleventh.
    mail.refuse(to, 450);
    await mail.sendNext();
    assert.equal((await mail.logOf(to)).status, "QUEUED");
    mail.accept(to);
    mail.pass(MINUTE_MS);
    await mail.sendNext();
    assert.equal((await mail.logOf(to)).status, "SENT");
  });

  it("sends a failed mail again when asked to, for 7 days, also to a suppressed address", async () => {
    const to = anAddress();
    mail.refuse(to, 550);
    await mail.verify(to);
    await mail.sendNext();
    const { id } = await mail.logOf(to);
    mail.pass(7 * DAY_MS - 1);
    await pruneEnded.run(mail.app, "*");
    mail.accept(to);
    const accounts = mail.app.transactAs({ role: "accounts" });
    const again = await accounts((work) => resendEmail(work, id));
    assert.deepEqual([again.status, again.attempts], ["QUEUED", 0]);
    await mail.sendNext();
    assert.equal((await mail.logOf(to)).status, "SENT");
    await assert.rejects(
      accounts((work) => resendEmail(work, id)),
      INVALID_STATE,
    );
    await assert.rejects(
      accounts((work) => resendEmail(work, randomUUID())),
      /not found/,
    );
    await assert.rejects(
      accounts((work) => resendEmail(work, "x")),
      /not found/,
    );
  });

  it("sends a mail that waits at once when asked to, and leaves one alone that is being sent", async () => {
    const to = anAddress();
    mail.refuse(to, 450);
    await mail.verify(to);
    await mail.sendNext();
    mail.accept(to);
    const { id } = await mail.logOf(to);
    await mail.app.transact((work) => resendEmail(work, id));
    const claim = await mail.app.transact(claimMail);
    assert.ok(claim.kind === "mail" && claim.mail.id === id);
    await assert.rejects(
      mail.app.transact((work) => resendEmail(work, id)),
      INVALID_STATE,
    );
  });

  it("forgets what a failed mail says after 7 days", async () => {
    const to = anAddress();
    mail.refuse(to, 554);
    await mail.verify(to);
    await mail.sendNext();
    const { id } = await mail.logOf(to);
    mail.pass(7 * DAY_MS);
    await pruneEnded.run(mail.app, "*");
    assert.equal(await outbox(), 0);
    await assert.rejects(
      mail.app.transact((work) => resendEmail(work, id)),
      INVALID_STATE,
    );
    assert.equal((await mail.logOf(to)).status, "FAILED");
  });
});
