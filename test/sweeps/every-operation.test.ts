import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { sql } from "kysely";
import { takesIdempotencyKey } from "../../src/http/idempotency.ts";
import { openApiDocument } from "../../src/http/openapi.ts";
import { routes } from "../../src/http/routes.ts";
import { createLog } from "../../src/log.ts";
import { type Admin, anAdmin } from "../support/app/admin.ts";
import { type Answer, startApp, type TestApp } from "../support/app/app.ts";
import { rowsOf } from "../support/app/effects.ts";
import { askedInside } from "../support/app/outside-transactions.ts";
import { aSecondSide, aSide, type Side } from "../support/app/sides.ts";
import { watchAnswers } from "../support/http/client.ts";
import { secretsIn } from "../support/secrets/secrets-in.ts";
import { UNAUDITED } from "../support/operations/unaudited.ts";
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

/** Operations that take no idempotency key: who they are for is not known yet, or they hand out sessions. */
const WITHOUT_KEY = `
  discoverSso completeSsoSaml createBillingCheckout createBillingPortal queryAnalyticsFunnel
  queryAnalyticsPlayers receiveBillingEvent register login refreshSession logout changePassword
  forgotPassword resetPassword verifyEmail resendVerification completeProfile exchangeOAuthCode
  startOAuthLink createWsToken acceptInvitation completeLogin startPasskeyLogin loginWithPasskey
  verifySecondFactor replaceRecoveryCodes setUpTotp enableTotp disableTotp startPasskey addPasskey
  superadminLogin completeSuperadminLogin replaceSuperadminRecoveryCodes setUpSuperadminTotp
  enableSuperadminTotp disableSuperadminTotp startSuperadminPasskey addSuperadminPasskey superadminLogout
  superadminChangePassword`
  .trim()
  .split(/\s+/);
/** After which the caller is nobody, or may not ask again: access is checked before an answer is repeated. */
const ACCESS_LOST: Readonly<Record<string, number>> = { leaveTeam: 401, transferOwnership: 403 };
/** Calls that owe the audit log other lines than their operation does: two changes, or that of a moderator. */
const OWED: Readonly<Record<string, readonly string[]>> = {
  "updateMember by user": ["member.role_changed", "member.suspended"],
  "syncSandbox by user": ["sandbox.created", "sandbox.synced"],
  "createAnalyticsSegment by key": ["segment.created", "segment.members_added"],
  "createAnalyticsSegment by user": ["segment.created", "segment.members_added"],
  "deleteChatMessage by user": ["chat_message.removed"],
};
const OF_PLATFORM = /^(platform_\w+|ip|blog_posts)\./;
/** Operations that make what their path names, or whose paths name what every project has. */
const NAMED: ReadonlySet<string> = new Set([
  "putEventType",
  "putChatWordList",
  "listAnalyticsSegmentPlayers",
]);

/** As the header takes it. */
const requestId = (name: string): string => name.replaceAll(/\W+/g, "-");
const isReplay = ({ headers }: Answer): boolean => headers.get("x-idempotent-replayed") === "true";

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
  const wrong = { answers: [] as string[], repeats: [] as string[], shown: [] as string[] };
  const found: string[] = [];

  /** A call as `caller` of a side, under a request id that the audit log will have. */
  const sendAs = async (
    caller: Caller,
    { route }: Operation,
    call: Call,
    headers: Record<string, string>,
    side = own,
  ) => {
    const { key, token, projectId } = side.tenant;
    if (caller === "anybody") return send(api, route, call, { headers });
    if (caller === "super-admin") return send(api, route, call, { token: admin.token, headers });
    if (caller === "key") return send(api, route, call, { key, headers });
    await forgetLimits(api, side, "");
    return send(api, route, call, { token, headers: { ...headers, "X-Project-ID": projectId } });
  };

  const callOnce = async (operation: Operation, caller: Caller): Promise<void> => {
    const { route, success } = operation;
    const name = `${route.id} by ${caller}`;
    const call = await operation.call(own, asOf(caller));
    if (caller === "key" || caller === "user") await attack(operation, caller, call);
    for (const secret of secretsIn(call)) secrets.add(secret);
    const given = JSON.stringify(call);
    const known = [...secrets].filter((secret) => !given.includes(secret));
    const takesKey = takesIdempotencyKey(route);
    // Of those open to keys too, a user's call goes without one: its work is no longer one transaction.
    const isKeyed =
      route.method === "post" && !(takesKey && caller === "user" && callersOf(route).length > 1);
    const key = isKeyed ? { "X-Idempotency-Key": takesKey ? randomUUID() : "no good key" } : {};
    const answer = await sendAs(caller, operation, call, { ...key, "X-Request-Id": requestId(name) });
    const text = JSON.stringify(answer.body) ?? "";
    if (answer.status !== success) wrong.answers.push(`${name}: ${answer.status} ${text}`);
    if (isReplay(answer)) wrong.repeats.push(`${name} was a repetition`);
    const shown = known.filter((secret) => text.includes(secret));
    if (shown.length > 0) wrong.shown.push(`${name}: ${shown.join()}`);
    called.add(route.id);
    if (route.id === "superadminLogout") admin = await anAdmin(api);
    if (!isKeyed || !takesKey) return;
    const again = await sendAs(caller, operation, call, {
      ...key,
      "X-Request-Id": requestId(`again ${name}`),
    });
    const lost = ACCESS_LOST[route.id];
    const isSame = isReplay(again) && again.status === success && JSON.stringify(again.body) === text;
    if (lost === undefined ? !isSame : again.status !== lost)
      wrong.repeats.push(`${name}: ${again.status} ${JSON.stringify(again.body)}`);
  };

  /** What is the caller's is not found by another tenant's callers, nor by another project's. */
  const attack = async (operation: Operation, caller: Caller, call: Call): Promise<void> => {
    const { route, foreign } = operation;
    const isOfTenant = route.project === "none" || route.path.includes("{projectId}");
    // A provider is nobody's, and names of what is put under them are anybody's.
    const isNamed = /\{(?!provider\})/.test(route.path) && !NAMED.has(route.id);
    for (const side of [stranger, second]) {
      const { token: _theirs, ...request } = call;
      // What is the tenant's, such as its people, is there for its users whatever the project.
      const isTheirs = side === second && caller === "user" && isOfTenant;
      const tries: Foreign[] = isNamed && !isTheirs ? [request] : [];
      tries.push(...((await foreign?.(side, own, asOf(caller))) ?? []));
      for (const { status = 404, reason, ...one } of tries) {
        attacks++;
        const answer = await sendAs(
          caller,
          operation,
          one,
          { "X-Request-Id": requestId(`attack ${route.id} by`) },
          side,
        );
        if (answer.status !== status || (reason !== undefined && answer.body.error.reason !== reason))
          found.push(`${route.id} by ${caller}: ${one.path} ${answer.status} ${JSON.stringify(answer.body)}`);
      }
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
    const ids = new Set(
      operations().flatMap(({ route }) => callersOf(route).map((by) => `${route.id} by ${by}`)),
    );
    assert.deepEqual(
      Object.keys(OWED).filter((name) => !ids.has(name)),
      [],
    );
    assert.deepEqual(
      [...UNAUDITED.keys()].filter((id) => !called.has(id)),
      [],
    );
  });

  it("answers as the document says, with the status of a success", () => assert.deepEqual(wrong.answers, []));

  it("takes an idempotency key unless it signs in or only reads, and ignores it there", () => {
    const posts = routes.filter(({ method }) => method === "post");
    const without = posts.filter((route) => !takesIdempotencyKey(route) && route.access !== "public");
    const unlisted = without.filter(({ id }) => !WITHOUT_KEY.includes(id));
    assert.deepEqual(
      unlisted.map(({ id }) => id),
      [],
    );
    assert.deepEqual(wrong.repeats, [], "a repetition gives the first answer again");
  });

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
    assert.ok(tables > 50, `rows in ${tables} tables`);
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
      const { rows } = await api.app.transact(({ db }) =>
        sql<Line>`
          select request_id as id, action, tenant_id as tenant, target_type as type, target_id as target,
            to_jsonb(a)::text as text
          from audit_log a where request_id ~ '-by-' order by id`.execute(db),
      );
      lines = rows;
    });

    it("leaves the lines in the audit log that it owes", () => {
      const byRequest = Map.groupBy(lines, ({ id }) => id);
      const odd: string[] = [];
      for (const { id, method, ...route } of routes)
        for (const caller of callersOf({ ...route, id, method })) {
          const name = `${id} by ${caller}`;
          const actions = (byRequest.get(requestId(name)) ?? []).map(({ action }) => action).toSorted();
          const count = method === "get" || UNAUDITED.has(id) ? 0 : 1;
          const owed = OWED[name];
          if (owed ? actions.join() !== owed.join() : actions.length !== count)
            odd.push(`${name}: ${actions.join()}`);
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
