import assert from "node:assert/strict";
import { sql } from "kysely";
import { aTenant } from "../support/app/app.ts";
import { eventually } from "../support/eventually.ts";
import { must } from "../support/http/client.ts";
import { startSmtp, type TestSmtp } from "../support/mail/mailbox.ts";
import { supervise, type Supervised } from "../support/processes/supervised.ts";
import { ownWeb } from "../support/processes/own-services.ts";

const PATH = "/api/v1/analytics/reports";
const RUNS = "analytics_report_runs";

describe("kill -9 of all workers in the midst of a scheduled report", () => {
  let workers: Supervised[] = [];
  let smtp: TestSmtp;
  after(async () => {
    await Promise.all(workers.map((worker) => worker.stop()));
    await smtp?.close();
  });
  const own = ownWeb({ poolMax: 6 });
  before(async () => {
    smtp = await startSmtp();
    // Where mail is sent, addresses are verified first: the web process sends none.
    own.env = { ...own.env, SMTP_URL: smtp.smtpUrl, MAIL_FROM: "laurel@test.example" };
  });

  const rowsOf = async <T>(statement: ReturnType<typeof sql<T>>): Promise<readonly T[]> =>
    (await statement.execute(own.db())).rows;

  /** Lets nobody write into a table, nor lock its rows; waits behind whoever is at it. */
  const hold = async (table: string) => {
    const holder = await own.db().startTransaction().execute();
    await sql`lock table ${sql.table(table)} in exclusive mode`.execute(holder);
    return holder;
  };
  type Waiting = { pid: number; query: string };
  const waitingAt = (table: string, kind: RegExp): Promise<Waiting[]> =>
    eventually(
      async () => {
        const rows = await rowsOf(sql<Waiting>`
          select l.pid, a.query from pg_locks l join pg_stat_activity a on a.pid = l.pid
          where l.relation = ${table}::regclass and not l.granted and l.mode <> 'ExclusiveLock'`);
        return rows.some(({ query }) => kind.test(query)) && [...rows];
      },
      { timeoutMs: 60_000, label: `a worker waits at ${table} for ${kind}` },
    );
  const isQueued = (table: string) =>
    eventually(async () => {
      const rows = await rowsOf(sql`
        select from pg_locks where relation = ${table}::regclass and not granted and mode = 'ExclusiveLock'`);
      return rows.length > 0;
    });

  /** Kills all workers where one of them waits, and waits until one that came after them does again. */
  const killAt = async (table: string, kind: RegExp): Promise<void> => {
    const waiting = await waitingAt(table, kind);
    await Promise.all(workers.map((worker) => worker.kill()));
    // A connection that waits for a lock does not notice that its client is gone.
    for (const { pid } of waiting) await rowsOf(sql`select pg_terminate_backend(${pid}::int)`);
    // The lease of a step whose process has died.
    await rowsOf(sql`update project_jobs set due_at = now() where status in ('QUEUED', 'RUNNING')`);
    const pids = new Set(waiting.map(({ pid }) => pid));
    await eventually(async () => (await waitingAt(table, kind)).some(({ pid }) => !pids.has(pid)), {
      timeoutMs: 60_000,
    });
  };

  it("leaves one run, one event and one mail for its due time", async () => {
    const { api } = own;
    const { key, userId, email, projectId } = await aTenant(api);
    const body = {
      name: "Of the week",
      report: "overview",
      range: { last: 1, unit: "WEEK" },
      // Half a day from now: it is not due by itself meanwhile.
      schedule: { every: "DAY", hour: (new Date().getUTCHours() + 12) % 24, mailTo: [userId] },
    };
    const { id } = must(await api.post(PATH, body, { key }), 201);
    let holder = await hold(RUNS);
    /** Lets those who wait go on, and nobody behind them. */
    const passOn = async (): Promise<void> => {
      const next = hold(RUNS);
      await isQueued(RUNS);
      await holder.rollback().execute();
      holder = await next;
    };
    let outbox: Awaited<ReturnType<typeof hold>> | undefined;
    try {
      await rowsOf(sql`
        update analytics_reports set next_at = now() - interval '40 hours' where id = ${id}::uuid`);
      workers = [supervise(["worker"], own.env), supervise(["worker"], own.env)];
      await killAt(RUNS, /insert into analytics_report_runs|delete from analytics_report_runs/);
      await passOn();
      await killAt(RUNS, /select cause, due_at/);
      outbox = await hold("outbox");
      await passOn();
      await waitingAt(RUNS, /for update of r skip locked/);
      await holder.rollback().execute();
      await killAt("outbox", /insert into outbox/);
    } finally {
      await outbox?.rollback().execute();
      if (!holder.isRolledBack) await holder.rollback().execute();
    }
    const toThem = () =>
      smtp.arrived.filter(({ to, mail }) => to === email && /ready/.test(mail.subject ?? ""));
    await eventually(() => toThem().length > 0, { timeoutMs: 60_000, label: "the mail" });
    const left = () =>
      rowsOf(sql<Record<string, string>>`
        select (select count(*) from email_outbox o join email_logs l on l.id = o.log_id
            where l.template = 'report-ready') as mails,
          (select count(*) from outbox_q) as lines,
          (select count(*) from analytics_report_runs where told_at is null) as untold,
          (select count(*) from analytics_reports where next_at <= now()) as due`);
    const nothing = [{ mails: "0", lines: "0", untold: "0", due: "0" }];
    const none = JSON.stringify(nothing);
    await eventually(async () => JSON.stringify(await left()) === none).catch(() => undefined);
    assert.deepEqual(await left(), nothing);
    const { data: runs } = must(await api.get(`${PATH}/${id}/runs`, { key }), 200);
    assert.deepEqual(
      runs.map(({ status }: { status: string }) => status),
      ["SUCCEEDED"],
    );
    must(await api.get(`${PATH}/${id}/runs/${runs[0].id}/result`, { key }), 200);
    const told = await rowsOf(sql<{ type: string }>`
      select type from outbox where project_id = ${projectId}::uuid and type like 'report.%'`);
    assert.deepEqual(told, [{ type: "report.ready" }]);
    assert.equal(toThem().length, 1);
    assert.ok(workers.every((worker) => worker.deaths() >= 3));
  });
});
