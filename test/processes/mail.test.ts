import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { sql } from "kysely";
import { createMail } from "../../src/domain/accounts/email/deliveries.ts";
import { createSecretBox } from "../../src/domain/kernel/secret-box.ts";
import { createTransact, NO_WAKE_UPS } from "../../src/domain/kernel/transact.ts";
import type { TransactAs } from "../../src/domain/kernel/work.ts";
import { type Database, openPostgres } from "../../src/platform/database.ts";
import { type Services, startServices } from "../support/processes/services.ts";
import { eventually, eventuallyHolds } from "../support/eventually.ts";
import { startSmtp, type TestSmtp } from "../support/mail/mailbox.ts";
import { kill, type Laurel, startProcess, temporaryDir } from "../support/processes/process.ts";

const KEY = "encryption-key-of-the-tests-and-of-nothing-else";
const MAILS = 60;
const anAddress = (): string => `${randomUUID()}@example.com`;
type Log = { id: string; status: string; attempts: number };

describe("mails of several workers", () => {
  let directory: Awaited<ReturnType<typeof temporaryDir>>;
  let services: Services;
  let database: Database;
  let smtp: TestSmtp;
  let transactAs: TransactAs;
  const workers: Laurel[] = [];
  /** Mails to these addresses arrive whole, and the server says nothing to them. */
  const held = new Map<string, Promise<void>>();

  const mail = createMail({
    secretBox: createSecretBox([KEY]),
    mode: "smtp",
    consoleUrl: "https://console.example.com",
    wake: () => undefined,
  });
  const queue = (to: string) =>
    transactAs({ role: "accounts" })((work) => {
      const values = { name: "Ada", token: randomUUID() };
      return mail.queue(work, { template: "verify-email", to, values, tenantId: null, userId: null });
    });
  const query = async <T>(text: ReturnType<typeof sql<T>>): Promise<readonly T[]> =>
    (await text.execute(database.em.fork().getKysely())).rows;
  const logOf = async (to: string): Promise<Log> =>
    (await query(sql<Log>`select id, status, attempts from email_logs where "to" = ${to}`))[0]!;
  const arrivedAt = (to: string) => smtp.arrived.filter((one) => one.to === to);
  const startWorker = async (env: Record<string, string> = {}): Promise<Laurel> => {
    const settings = { SMTP_URL: smtp.smtpUrl, MAIL_FROM: "laurel@test.example", ENCRYPTION_KEYS: KEY };
    const worker = await startProcess(["worker"], { ...services.env, ...settings, ...env });
    workers.push(worker);
    return worker;
  };
  const killAll = async (): Promise<void> => {
    for (const worker of workers.splice(0)) await kill(worker);
  };

  before(async () => {
    directory = await temporaryDir();
    services = await startServices(directory.path);
    smtp = await startSmtp(undefined, { hold: (to) => held.get(to) });
    database = await openPostgres(services.databaseUrl, 2);
    transactAs = (scope) =>
      createTransact(
        {
          em: database.em,
          clock: () => new Date(),
          wakeUps: NO_WAKE_UPS,
          onError: (error) => assert.fail(String(error)),
        },
        scope,
      );
  });
  after(async () => {
    await killAll();
    await database?.close();
    await smtp?.close();
    await services?.remove();
    await directory?.remove();
  });
  afterEach(killAll);

  it("arrive once each, whoever sends them", async () => {
    const addresses = Array.from({ length: MAILS }, anAddress);
    await Promise.all([startWorker(), startWorker(), startWorker()]);
    await Promise.all(addresses.map(queue));
    await eventuallyHolds(
      async () => {
        for (const to of addresses) assert.equal((await logOf(to)).status, "SENT");
      },
      { timeoutMs: 60_000 },
    );
    for (const to of addresses) {
      assert.equal(arrivedAt(to).length, 1);
      assert.equal((await logOf(to)).attempts, 1);
    }
    assert.deepEqual(await query(sql`select log_id from email_outbox`), []);
  });

  it("arrive at most twice when a worker is killed between sending and noting, by another one", async () => {
    const [to, other] = [anAddress(), anAddress()];
    held.set(to, new Promise(() => undefined));
    await queue(to);
    const first = await startWorker();
    await eventually(() => arrivedAt(to).length === 1, { timeoutMs: 60_000 });
    await kill(first);
    assert.equal((await logOf(to)).status, "SENDING");
    held.delete(to);

    await startWorker();
    await queue(other);
    await eventually(async () => (await logOf(other)).status === "SENT", { timeoutMs: 60_000 });
    assert.equal((await logOf(to)).status, "SENDING", "the lease of the dead is respected");
    // In place of waiting for a minute and a half.
    await query(
      sql`update email_outbox set locked_until = now() where log_id = ${(await logOf(to)).id}::uuid`,
    );
    await eventually(async () => (await logOf(to)).status === "SENT", { timeoutMs: 60_000 });
    const ids = arrivedAt(to).map((one) => one.mail.messageId);
    assert.equal(ids.length, 2);
    assert.equal(new Set(ids).size, 1, "both have one Message-ID, so that programs show one");
    assert.equal((await logOf(to)).attempts, 2);
  });
});
