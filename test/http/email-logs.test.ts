import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import {
  listEmailLogs,
  type MailTemplate,
  type MailValues,
  showEmailLogInFull,
} from "../../src/domain/accounts/email/mail.ts";
import { aTenant, startApp } from "../support/app/app.ts";
import { must } from "../support/http/client.ts";
import { eventually, eventuallyHolds } from "../support/eventually.ts";
import { refuseMail } from "../support/mail/mailbox.ts";
import { madeForEach, madeOnce } from "../support/made.ts";

const PATH = "/api/v1/email-logs";
const anAddress = (): string => `${randomUUID()}@example.com`;
type Log = {
  id: string;
  to: string;
  status: string;
  attempts: number;
  error?: string;
  createdAt: string;
  sentAt?: string;
};
const page = { page: 1, limit: 20 };

describe("email logs", () => {
  const queue = <T extends MailTemplate>(template: T, to: string, values: MailValues[T]) =>
    api.app.transactAs({ role: "accounts" })((work) => {
      const { tenantId, userId } = tenant;
      return api.app.mail.queue(work, { template, to, values, tenantId, userId });
    });
  const verify = (to: string, token = randomUUID()) => queue("verify-email", to, { name: "Ada", token });
  const list = async (query = "", token = tenant.token) =>
    must(await api.get(`${PATH}${query}`, { token }), 200);
  /** The one mail to an address, once it has that status. */
  const logOf = (to: string, status: string) =>
    eventually(async () => {
      const { data } = await list(`?email=${encodeURIComponent(to)}`);
      return (data as Log[]).find((log) => log.status === status);
    });

  const api = madeOnce(startApp);
  const tenant = madeForEach(() => aTenant(api));

  it("show whom a mail went to and when, but not what it says", async () => {
    const [to, token] = [anAddress(), randomUUID()];
    await verify(to, token);
    const log = await logOf(to, "SENT");
    const { id, createdAt, sentAt, ...rest } = log;
    assert.match(id, /^[0-9a-f-]{36}$/);
    assert.ok(Date.parse(sentAt!) >= Date.parse(createdAt));
    assert.deepEqual(rest, {
      to,
      template: "verify-email",
      subject: "Verify your email address",
      status: "SENT",
      attempts: 1,
      userId: tenant.userId,
    });
    assert.ok(!JSON.stringify(await list()).includes(token));
  });

  it("tell why a mail was not sent, in words that say nothing of the server's network", async () => {
    const [later, never] = [anAddress(), anAddress()];
    refuseMail(later, 450);
    refuseMail(never, 550);
    await verify(later);
    await verify(never);
    await eventuallyHolds(async () => {
      const { data } = await list(`?email=${later}`);
      assert.equal(data[0].error, "The mail server asks to retry later (450)");
      assert.deepEqual([data[0].status, data[0].attempts, data[0].sentAt], ["QUEUED", 1, undefined]);
    });
    const failed = await logOf(never, "FAILED");
    assert.equal(failed.error, "The address does not accept mail (550)");
    assert.ok(!JSON.stringify(failed).includes("refused by the test"));
    await queue("password-changed", never, { name: "Ada" });
    assert.equal((await logOf(never, "SUPPRESSED")).attempts, 0);
  });

  it("are listed in pages, newest first", async () => {
    const addresses = Array.from({ length: 5 }, anAddress);
    for (const to of addresses) await verify(to);
    const all = await list("?template=verify-email&limit=100");
    const ours = all.data.map(({ to }: { to: string }) => to).filter((to: string) => addresses.includes(to));
    assert.deepEqual(ours, addresses.toReversed());
    const [first, second] = [await list("?limit=3"), await list("?limit=3&page=2")];
    const ids = [...first.data, ...second.data].map(({ id }) => id);
    assert.equal(new Set(ids).size, ids.length);
    assert.ok(first.pagination.total >= 5);
    assert.deepEqual((await list("?page=9999")).data, []);
  });

  it("can be narrowed to a status, a template, an address and a time", async () => {
    const [one, other] = [anAddress(), anAddress()];
    await verify(one);
    await queue("password-changed", other, { name: "Ada" });
    const sent = await logOf(one, "SENT");
    await logOf(other, "SENT");
    const addressesOf = async (query: string): Promise<string[]> =>
      (await list(query)).data.map(({ to }: { to: string }) => to);
    assert.deepEqual(await addressesOf(`?email=${one}`), [one]);
    assert.deepEqual(await addressesOf(`?email=${one.toUpperCase()}`), [one]);
    assert.deepEqual(await addressesOf("?template=password-changed"), [other]);
    assert.deepEqual(await addressesOf(`?email=${one}&status=FAILED`), []);
    assert.deepEqual(await addressesOf(`?email=${one}&status=SENT&template=verify-email`), [one]);
    assert.deepEqual(await addressesOf(`?email=${one}&from=${sent.createdAt}`), [one]);
    assert.deepEqual(await addressesOf(`?email=${one}&to=${sent.createdAt}`), []);
    assert.deepEqual(await addressesOf(`?email=${one}&from=1970-01-01T00:00:00Z&to=9998-12-31T00:00:00Z`), [
      one,
    ]);
    assert.deepEqual(await addressesOf("?from=9000-01-01T00:00:00Z"), []);
  });

  it("of all tenants are there for super-admins, with what the mail server said", async () => {
    const [to, refused] = [anAddress(), anAddress()];
    refuseMail(refused, 554);
    await verify(to);
    await verify(refused);
    await logOf(to, "SENT");
    await logOf(refused, "FAILED");
    const accounts = api.app.transactAs({ role: "accounts" });
    const find = (filter: object) => accounts((work) => listEmailLogs(work, filter, page));
    const { rows, total } = await find({ email: to });
    assert.equal(total, 1);
    const shown = showEmailLogInFull(rows[0]!);
    assert.equal(shown.tenantId, tenant.tenantId);
    assert.equal(shown.providerMessageId, `<${shown.id}@test.example>`);
    assert.match((await find({ email: refused })).rows[0]!.smtpResponse ?? "", /554.*refused by the test/);
    assert.equal((await find({ email: to, tenantId: randomUUID() })).total, 0);
  });
});
