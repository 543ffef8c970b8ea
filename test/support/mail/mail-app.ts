import { randomUUID } from "node:crypto";
import { type App, createApp } from "../../../src/app.ts";
import { EmailLog, type MailTemplate, type MailValues } from "../../../src/domain/accounts/email/mail.ts";
import { sendMail } from "../../../src/jobs/sweeps.ts";
import { createLog } from "../../../src/log.ts";
import { createMetrics } from "../../../src/metrics.ts";
import { openPlatform } from "../../../src/platform.ts";
import { testConfig } from "../app/app.ts";
import { migratedCluster } from "../domain/migrated-cluster.ts";
import { madeOnce } from "../made.ts";
import { type Statement, statementsOf } from "../statement.ts";
import { type Arrived, startSmtp } from "./mailbox.ts";

/** An app without HTTP and without running jobs: a test sets its clock and runs its worker by hand. */
type MailApp = {
  app: App;
  sql: Statement;
  /** Lets time pass. */
  pass: (ms: number) => void;
  /** Takes the next due mail and sends it. */
  sendNext: (app?: App) => Promise<void>;
  queue: <T extends MailTemplate>(template: T, to: string, values: MailValues[T]) => Promise<boolean>;
  /** Queues a mail with a token, a new one unless told otherwise. */
  verify: (to: string, token?: string) => Promise<boolean>;
  /** Queues a mail without one. */
  notice: (to: string) => Promise<boolean>;
  /** The log of the newest mail to an address. */
  logOf: (to: string) => Promise<EmailLog>;
  /** What the process has logged, line by line. */
  lines: string[];
  /** Makes the mail server refuse an address until `accept`. */
  refuse: (to: string, status: number, message?: string) => void;
  accept: (to?: string) => void;
  arrivedAt: (to: string) => Arrived[];
  close: () => Promise<void>;
};

export const aToken = (): string => randomUUID().replaceAll("-", "");
export const anAddress = (): string => `${randomUUID()}@example.com`;

/** @param env settings besides those of mail */
const openMailApp = async (env: Record<string, string> = {}): Promise<MailApp> => {
  const refusals = new Map<string, { status: number; message: string }>();
  const smtp = await startSmtp(undefined, { refuse: (to) => refusals.get(to) });
  const settings = { SMTP_URL: smtp.smtpUrl, MAIL_FROM: "laurel@test.example", ...env };
  const config = { ...testConfig(settings), logLevel: "info" as const };
  const lines: string[] = [];
  const log = createLog(config, { write: (line) => void lines.push(line) });
  const platform = await openPlatform(config, log, { inMemory: true, cluster: await migratedCluster() });
  await platform.database.migrateUp();
  let nowMs = Date.UTC(2030, 0, 1);
  const app = createApp({ config, log, metrics: createMetrics(), platform, clock: () => new Date(nowMs) });
  const queue: MailApp["queue"] = (template, to, values) =>
    app.transactAs({ role: "accounts" })((work) =>
      app.mail.queue(work, { template, to, values, tenantId: null, userId: null }),
    );
  return {
    app,
    sql: statementsOf(app.transact),
    pass: (ms) => void (nowMs += ms),
    sendNext: (other = app) => sendMail.run(other, "0"),
    queue,
    verify: (to, token = aToken()) => queue("verify-email", to, { name: "Ada", token }),
    notice: (to) => queue("password-changed", to, { name: "Ada" }),
    logOf: (to) =>
      app.transact(async ({ em }) => {
        const [found] = await em.find(EmailLog, { to }, { orderBy: { id: "desc" }, limit: 1 });
        if (!found) throw new Error(`no mail to ${to}`);
        return found;
      }),
    lines,
    refuse: (to, status, message = "no") => void refusals.set(to, { status, message }),
    accept: (to) => (to === undefined ? refusals.clear() : void refusals.delete(to)),
    arrivedAt: (to) => smtp.arrived.filter((one) => one.to === to),
    close: async () => {
      await app.mailer.close();
      await platform.close();
      await smtp.close();
    },
  };
};

/** A mail app whose outbox is empty, and whose mail server takes everything, when a test begins. */
export const mailApp = () => {
  const mail = madeOnce(openMailApp, (made) => made.close());
  beforeEach(async () => {
    await mail.sql`delete from email_outbox`;
    mail.accept();
  });
  /** How many mails wait. */
  const outbox = async (): Promise<number> => {
    const rows = await mail.sql<{ n: number }>`select count(*) as n from email_outbox`;
    return rows[0]!.n;
  };
  return { mail, outbox };
};

/** Texts that a mail library may take for an address, and that name another one, two, a file or a header. */
export const HOSTILE_ADDRESSES: readonly string[] = [
  "ann@acme.test, victim@x.test",
  "ann@acme.test;victim@x.test",
  "ann@acme.test> RCPT TO:<victim@x.test",
  "ann@acme.test\r\nRCPT TO:<victim@x.test>",
  "ann@acme.test\n",
  '"ann@acme.test, victim"@x.test',
  "Ann <victim@x.test>",
  "<ann@acme.test>",
  "ann@acme.test (victim@x.test)",
  "group: ann@acme.test, victim@x.test;",
  "ann@acme.test@x.test",
  "ann@acme.test\0victim@x.test",
  "ann@[127.0.0.1]",
  "ann@localhost",
  " ann@acme.test",
  "ann@acme..test",
  ".ann@acme.test",
  "ann@-acme.test",
  "victim%x.test@acme.test",
  "x.test!victim@acme.test",
  "=?utf-8?q?victim=40x.test=3E?=@acme.test",
  "ann@аcme.test",
  "",
  `${"l".repeat(65)}@acme.test`,
  `ann@${"d.".repeat(130)}test`,
];
