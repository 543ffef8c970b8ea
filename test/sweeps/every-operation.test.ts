import { sql } from "kysely";
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { type Answer, startApp, type TestApp } from "../support/app/app.ts";
import { eventually } from "../support/eventually.ts";
import { takesIdempotencyKey } from "../../src/http/idempotency.ts";
import { openApiDocument } from "../../src/http/openapi.ts";
import type { AnyRoute } from "../../src/http/route.ts";
import { routes } from "../../src/http/routes.ts";
import { createLog } from "../../src/log.ts";
import { type Admin, anAdmin } from "../support/app/admin.ts";
import { askedInside } from "../support/app/outside-transactions.ts";
import { aSecondSide, aSide, type Side } from "../support/app/sides.ts";
import { watchAnswers } from "../support/http/client.ts";
import { auditedIds, isOwed } from "../support/operations/audited.ts";
import {
  asOf,
  type Call,
  type Caller,
  callersOf,
  type Foreign,
  forgetLimits,
  forgottenOperations,
  type Operation,
  operations,
  send,
} from "../support/operations/operations.ts";

/** Queues that empty by themselves, what time tells of, and what is counted or written a while afterwards. */
const SKIPPED = new Set([
  "analytics_days",
  "analytics_gains",
  "analytics_rollups",
  "email_outbox",
  "event_due",
  "event_q",
  "event_traces",
  "event_types",
  "idempotency_keys",
  "leaderboard_feed",
  "leaderboard_notices",
  "lobbies",
  "lobby_members",
  "outbox_q",
  "rule_stats",
  "segment_changes",
  "segment_sweeps",
  "usage_changes",
]);
/** Columns that move by themselves, in any table. */
const RESTLESS = ["last_used_at", "leader_id", "leader_score", "notice_round"];
/** What time, and work that goes on for a while, leave in columns of a table. */
const LEFT_BY_TIME: Readonly<Record<string, readonly string[]>> = {
  custom_domains: ["txt", "routing", "check_error", "checked_at", "next_check_at", "updated_at"],
  definitions: ["ends", "ends_changed"],
  email_logs: ["status", "attempts", "provider_message_id", "smtp_response", "error", "sent_at"],
  player_streaks: ["doc", "due_at", "updated_at"],
  players: ["seq", "updated_at"],
  webhook_deliveries: ["log", "error", "attempts", "due_at", "next_attempt_at", "status", "updated_at"],
  webhooks: ["failing_since", "last_failure_at"],
};
/** What is told of ranks, of lobbies as time goes by, and in the evening of streaks that end with the day. */
const TOLD_BY_TIME =
  "{leaderboard.rank_changed,leaderboard.new_leader,player.streak_at_risk,lobby.changed,lobby.closed}";

/** Waits until workers have done what was asked for. */
const settle = ({ app }: TestApp): Promise<true> =>
  eventually(
    async () => {
      const { rows } = await app.transact(({ db }) =>
        sql<{ waiting: string }>`
          select (select count(*) from event_q) + (select count(*) from outbox_q)
            + (select count(*) from project_jobs where status in ('QUEUED', 'RUNNING')
              and due_at < now() + interval '1 day')
            + (select count(*) from leaderboard_periods where status = 'CLOSING')
            + (select count(*) from analytics_report_runs where told_at is null)
            + (select count(*) from segment_changes) as waiting`.execute(db),
      );
      return Number(rows[0]!.waiting) === 0;
    },
    { label: "the queues are empty" },
  );

type Owner = { tenantId: string } | { projectId: string };
type Table = { name: string; owner: "tenant_id" | "project_id" };

/** Which rows of a table are the owner's: of a tenant, those of all its projects too. */
const ownedBy = ({ owner: column }: Table, owner: Owner) => {
  if ("projectId" in owner) return sql`t.project_id = ${owner.projectId}::uuid`;
  if (column === "tenant_id") return sql`t.tenant_id = ${owner.tenantId}::uuid`;
  return sql`t.project_id in (select id from projects where tenant_id = ${owner.tenantId}::uuid)`;
};

/** How many rows the owner has in each table, with a hash of what is in them, once the queues are empty. */
const rowsOf = async (api: TestApp, owner: Owner): Promise<Record<string, string>> => {
  await settle(api);
  return api.app.transact(async ({ db }) => {
    const columns = "projectId" in owner ? ["project_id"] : ["tenant_id", "project_id"];
    const { rows: tables } = await sql<Table>`
      select distinct on (relname) relname as name, attname as owner
      from pg_class c join pg_attribute a on a.attrelid = c.oid and attname = any(${`{${columns.join(",")}}`}::text[])
      where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and not relispartition
      order by relname, attname = 'tenant_id' desc`.execute(db);
    const asked = tables
      .filter(({ name }) => !SKIPPED.has(name))
      .map((table) => {
        const restless = [...RESTLESS, ...(LEFT_BY_TIME[table.name] ?? [])];
        const told = table.name === "outbox" ? sql`and t.type <> all(${TOLD_BY_TIME})` : sql``;
        return sql`
          select ${table.name}::text as name, count(*) || ' ' || md5(string_agg(r, '|' order by r)) as print
          from (select (to_jsonb(t) - ${`{${restless.join(",")}}`}::text[])::text as r
            from ${sql.ref(table.name)} t where ${ownedBy(table, owner)} ${told}) as rows`;
      });
    // One statement: as many as there are tables would take longer than what is looked at.
    const { rows } = await sql<{ name: string; print: string | null }>`
      ${sql.join(asked, sql` union all `)}`.execute(db);
    return Object.fromEntries(rows.flatMap(({ name, print }) => (print === null ? [] : [[name, print]])));
  });
};

const NAME = /password|token$|secret$|signature|recoverycodes/i;
const TEXT = /^(svc_|whsec_)\w{20}/;
/** Shorter texts may stand anywhere by chance. */
const LENGTH_MIN = 12;

/** Texts of a body that nobody may read later, by the names that they stand under and by how they begin. */
const secretsIn = (value: unknown, name = ""): string[] => {
  if (typeof value === "string")
    return value.length >= LENGTH_MIN && (NAME.test(name) || TEXT.test(value)) ? [value] : [];
  if (Array.isArray(value)) return value.flatMap((item) => secretsIn(item, name));
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([field, item]) => secretsIn(item, field));
};

/** After which the caller is nobody, or may not ask again: access is checked before an answer is repeated. */
const ACCESS_LOST: Readonly<Record<string, number>> = { leaveTeam: 401, transferOwnership: 403 };
const OF_PLATFORM = /^(platform_\w+|ip|blog_posts)\./;
/** What they are given as a secret, they show this once. */
const GIVES_BACK: ReadonlySet<string> = new Set(["createWebhook", "rotateWebhookSecret"]);
/** Operations that make what their path names, or whose paths name what every project has. */
const NAMED: ReadonlySet<string> = new Set([
  "putEventType",
  "putChatWordList",
  "listAnalyticsSegmentPlayers",
]);

const isReplay = ({ headers }: Answer): boolean => headers.get("x-idempotent-replayed") === "true";

const isOfTenant = (caller: Caller): boolean => caller === "key" || caller === "user";
const textOf = ({ body }: Answer): string => JSON.stringify(body) ?? "";

/** Whether a call has been answered again as it was the first time, or was refused to who may not ask again. */
const isRepetition = ({ id }: AnyRoute, first: Answer, again: Answer): boolean => {
  const lost = ACCESS_LOST[id];
  if (lost !== undefined) return again.status === lost;
  return isReplay(again) && again.status === first.status && textOf(again) === textOf(first);
};

/** The idempotency key of a call; one that is none where the operation takes none. */
const keyFor = (route: AnyRoute, caller: Caller): { key: string } | undefined => {
  if (route.method !== "post") return undefined;
  if (!takesIdempotencyKey(route)) return { key: "no good key" };
  // Of those open to keys too, a user's call goes without one: its work is no longer one transaction.
  return caller === "user" && callersOf(route).length > 1 ? undefined : { key: randomUUID() };
};

type Rows = Awaited<ReturnType<typeof rowsOf>>;

/** One pass: each operation is called by whoever it is open to, and each test looks at all of the calls. */
describe("every operation, called once by a key and once by a user", function () {
  this.timeout(400_000);
  let api: TestApp;
  let own: Side;
  /** Another tenant's, another project of the same tenant, and a tenant's that has no part in it. */
  let stranger: Side;
  let second: Side;
  let bystander: Side;
  let admin: Admin;
  const called = new Set<string>();
  let attacks = 0;
  /** All that was given or told, at any time. */
  const secrets = new Set<string>();
  const log: string[] = [];
  let untouched: Rows;
  let afterwards: Rows;
  const wrong = {
    answers: [] as string[],
    repeats: [] as string[],
    shown: [] as string[],
    totals: [] as string[],
  };
  const found: string[] = [];

  /** A call as `caller` of a side, under a request id that the audit log will have. */
  const sendAs = async (
    caller: Caller,
    { route }: Operation,
    call: Call,
    { side = own, ...named }: { requestId: string; key?: string; side?: Side },
  ) => {
    const { key, token, projectId } = side.tenant;
    const headers = {
      "X-Request-Id": named.requestId.replaceAll(/\W+/g, "-"),
      ...(named.key === undefined ? {} : { "X-Idempotency-Key": named.key }),
    };
    if (caller === "anybody") return send(api, route, call, { headers });
    if (caller === "super-admin") return send(api, route, call, { token: admin.token, headers });
    if (caller === "key") return send(api, route, call, { key, headers });
    await forgetLimits(api, side, "");
    return send(api, route, call, { token, headers: { ...headers, "X-Project-ID": projectId } });
  };

  const noteWrong = (
    name: string,
    { answer, success, known }: { answer: Answer; success: number; known: readonly string[] },
  ): void => {
    if (answer.status !== success) wrong.answers.push(`${name}: ${answer.status} ${textOf(answer)}`);
    if (isReplay(answer)) wrong.repeats.push(`${name} was a repetition`);
    const shown = known.filter((secret) => textOf(answer).includes(secret));
    if (shown.length > 0) wrong.shown.push(`${name}: ${shown.join()}`);
  };

  const callOnce = async (operation: Operation, caller: Caller): Promise<void> => {
    const { route, success } = operation;
    const name = `${route.id} by ${caller}`;
    const call = await operation.call(own, asOf(caller));
    await attack(operation, caller, call);
    for (const secret of secretsIn(call)) secrets.add(secret);
    const known = GIVES_BACK.has(route.id) ? [] : [...secrets];
    const key = keyFor(route, caller);
    const answer = await sendAs(caller, operation, call, { ...key, requestId: name });
    noteWrong(name, { answer, success, known });
    called.add(route.id);
    await lookBeyond(operation, caller, call, answer);
    if (route.id === "superadminLogout") admin = await anAdmin(api);
    if (!key || !takesIdempotencyKey(route)) return;
    const again = await sendAs(caller, operation, call, { ...key, requestId: `again ${name}` });
    if (!isRepetition(route, answer, again)) wrong.repeats.push(`${name}: ${again.status} ${textOf(again)}`);
  };

  /** A page after the last one is empty, and says how much there is like the first. */
  const lookBeyond = async (
    operation: Operation,
    caller: Caller,
    call: Call,
    first: Answer,
  ): Promise<void> => {
    if (operation.route.method !== "get" || first.body?.pagination?.page !== 1) return;
    const { total, totalPages } = first.body.pagination;
    const [where, query] = call.path.split("?") as [string, string?];
    const asked = new URLSearchParams(query);
    asked.set("page", String(Math.max(1, totalPages) + 1));
    const path = `${where}?${asked.toString()}`;
    const requestId = `beyond ${operation.route.id}`;
    const { status, body } = await sendAs(caller, operation, { ...call, path }, { requestId });
    // Event types are learned a moment after their events: a list may have grown in between.
    const hasGrown = async (): Promise<boolean> => {
      const now = await sendAs(caller, operation, call, { requestId: `${requestId} again` });
      return now.body.pagination.total === body.pagination.total;
    };
    if (status !== 200 || body.data.length > 0 || (body.pagination.total !== total && !(await hasGrown())))
      wrong.totals.push(`${operation.route.id}: ${total}, then ${status} ${JSON.stringify(body.pagination)}`);
  };

  /** What callers of `side` may try with what is another's: in the path, and wherever an id may stand. */
  const triesOf = async (
    { route, foreign }: Operation,
    caller: Caller,
    call: Call,
    side: Side,
  ): Promise<Foreign[]> => {
    const hasNoProject = route.project === "none" || route.path.includes("{projectId}");
    // A provider is nobody's, and names of what is put under them are anybody's.
    const isNamed = /\{(?!provider\})/.test(route.path) && !NAMED.has(route.id);
    // What is the tenant's, such as its people, is there for its users whatever the project.
    const isTheirs = side === second && caller === "user" && hasNoProject;
    const { token: _own, ...request } = call;
    const tries: Foreign[] = (await foreign?.(side, own, asOf(caller))) ?? [];
    return isNamed && !isTheirs ? [request, ...tries] : tries;
  };

  /** What is the caller's is not found by another tenant's callers, nor by another project's. */
  const attack = async (operation: Operation, caller: Caller, call: Call): Promise<void> => {
    const name = `${operation.route.id} by ${caller}`;
    if (!isOfTenant(caller)) return;
    for (const side of [stranger, second])
      for (const { status = 404, reason, ...one } of await triesOf(operation, caller, call, side)) {
        attacks++;
        const answer = await sendAs(caller, operation, one, { side, requestId: `attack ${name}` });
        const isRefused = answer.status === status && [undefined, answer.body.error.reason].includes(reason);
        if (!isRefused) found.push(`${name}: ${one.path} ${answer.status} ${textOf(answer)}`);
      }
  };

  before(async () => {
    api = await startApp(createLog({ logLevel: "debug" }, { write: (line) => void log.push(line) }));
    watchAnswers((_method, _path, _status, body) => {
      for (const secret of secretsIn(body)) secrets.add(secret);
    });
    [own, stranger, bystander] = [await aSide(api), await aSide(api), await aSide(api)];
    second = await aSecondSide(api, own);
    admin = await anAdmin(api);
    const ofTenants = operations().filter(({ route: { access } }) => access !== "public" && !access.admin);
    // Something of each kind.
    for (const [, some] of Map.groupBy(ofTenants, ({ route }) => route.tag))
      for (const { call, route } of some.filter((one) => one.route.path.includes("{")).slice(-3))
        await call(bystander, asOf(callersOf(route)[0]!));
    const bystanders = { tenantId: bystander.tenant.tenantId };
    untouched = await rowsOf(api, bystanders);
    for (const operation of operations())
      for (const caller of callersOf(operation.route)) {
        try {
          await callOnce(operation, caller);
        } catch (error) {
          wrong.answers.push(`${operation.route.id} by ${caller}: ${String(error)}`);
        }
      }
    afterwards = await rowsOf(api, bystanders);
  });

  it("is described for the sweeps, each of the document and no other", () => {
    const paths = Object.values(openApiDocument(routes).paths ?? {});
    const described = paths.flatMap((path) =>
      Object.values(path as Record<string, { operationId?: string }>).map(({ operationId }) => operationId),
    );
    assert.deepEqual(described.toSorted(), [...called].toSorted());
    assert.deepEqual(forgottenOperations(), []);
    assert.deepEqual(
      auditedIds().filter((id) => !called.has(id)),
      [],
    );
  });

  it("answers as the document says, with the status of a success", () => assert.deepEqual(wrong.answers, []));

  it("repeats its answer under an idempotency key, and ignores one where it takes none", () =>
    assert.deepEqual(wrong.repeats, []));

  it("tells how much there is in all on every page of a list", () => assert.deepEqual(wrong.totals, []));

  it("asks nothing but the database while its transaction is open", () => assert.deepEqual(askedInside, []));

  it("shows no secret that was given or told before", () => {
    assert.ok(secrets.size > 100, `${secrets.size} secrets`);
    assert.deepEqual(wrong.shown, []);
  });

  it("leaves no secret in the log", () => {
    const text = log.join("");
    assert.ok(log.length > called.size, `${log.length} lines`);
    assert.deepEqual(
      [...secrets].filter((secret) => text.includes(secret)),
      [],
    );
  });

  it("finds nothing of another tenant, nor of another project of the tenant", () => {
    assert.ok(attacks > 800, `${attacks} attacks`);
    assert.deepEqual(found, []);
  });

  it("touches no row of another tenant", () => {
    const tables = Object.keys(untouched).length;
    assert.ok(tables > 45, `rows in ${tables} tables`);
    assert.deepEqual(afterwards, untouched);
  });

  describe("and changes something", () => {
    type Line = {
      id: string;
      action: string;
      tenant: string | null;
      type: string;
      target: string;
      text: string;
    };
    let lines: Line[];
    before(async () => {
      const rows = await api.sql<Line>`
        select request_id as id, action, tenant_id as tenant, target_type as type, target_id as target,
          to_jsonb(a)::text as text
        from audit_log a where request_id ~ '-by-' order by id`;
      lines = rows;
    });

    it("leaves the lines in the audit log that it owes", () => {
      const byRequest = Map.groupBy(lines, ({ id }) => id);
      const odd: string[] = [];
      for (const route of routes)
        for (const caller of callersOf(route)) {
          const name = `${route.id} by ${caller}`;
          const actions = (byRequest.get(name.replaceAll(" ", "-")) ?? []).map(({ action }) => action);
          if (!isOwed(route, caller, actions)) odd.push(`${name}: ${actions.join()}`);
        }
      assert.deepEqual(odd, []);
      assert.deepEqual(
        lines.filter(({ id }) => /^(again|attack)/.test(id)),
        [],
      );
    });

    it("tells there whose the change is, and no secret", () => {
      const ofPlatform = (action: string) => OF_PLATFORM.test(action);
      assert.deepEqual(
        lines.filter(
          ({ action, tenant, type, target }) =>
            !/^[a-z_]+\.[a-z_]+$/.test(action) ||
            (tenant === null) !== ofPlatform(action) ||
            (type === "tenant" && tenant !== target),
        ),
        [],
      );
      const ends = [...secrets].map((secret) => secret.slice(-20));
      assert.deepEqual(
        lines.filter(({ text }) => ends.some((end) => text.includes(end))),
        [],
      );
    });
  });
});
