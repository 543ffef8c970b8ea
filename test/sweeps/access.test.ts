import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { sql } from "kysely";
import { SCOPES, scopesOf } from "../../src/domain/kernel/access.ts";
import { ROLES } from "../../src/domain/kernel/caller.ts";
import { LIMITS } from "../../src/domain/accounts/rate-limits/limits.ts";
import { openApiDocument } from "../../src/http/openapi.ts";
import { routes } from "../../src/http/routes.ts";
import { aKey, type Answer, aWsToken, startApp, type TestApp } from "../support/app/app.ts";
import { anAdmin, aPlatformToken } from "../support/app/admin.ts";
import { PERMISSIONS, permissionOf } from "../support/permissions/permissions.ts";
import { aMember } from "../support/app/member.ts";
import {
  type As,
  type Call,
  forgottenOperations,
  type Operation,
  operations,
  send,
} from "../support/operations/operations.ts";
import { aSecondSide, aSide, type Side } from "../support/app/sides.ts";

/** The path of an operation with ids that name nothing, for calls that must be refused before any look-up. */
const unreachable = ({ route }: Operation): Call => ({
  body: {},
  path: route.path.replaceAll(/\{\w+\}/g, () => randomUUID()),
});

const says = (answer: Answer, status: number, reason?: string): void => {
  assert.equal(answer.status, status, JSON.stringify(answer.body));
  if (reason !== undefined) assert.equal(answer.body.error.reason, reason);
};

/** Tables whose rows belong to a project, by the column that says so. */
const OWNED: readonly (readonly [table: string, column: string])[] = [
  ["projects", "id"],
  ["api_keys", "project_id"],
  ["players", "project_id"],
  ["rules", "project_id"],
  ["leaderboards", "project_id"],
  ["leaderboard_entries", "project_id"],
  ["level_curves", "project_id"],
  ["tracked_events", "project_id"],
  ["ledger_entries", "project_id"],
  ["outbox", "project_id"],
];

const fingerprint = (api: TestApp, { tenant }: Side): Promise<Record<string, string>> =>
  api.app.transact(async ({ db }) => {
    const found: Record<string, string> = {};
    for (const [table, column] of OWNED) {
      const result = await sql<{ print: string }>`
        select count(*) || ':' || coalesce(md5(string_agg(r, '|' order by r)), '') as print
        from (select (to_jsonb(t) - 'last_used_at')::text as r from ${sql.ref(table)} t
          where ${sql.ref(column)} = ${tenant.projectId}::uuid) as rows`.execute(db);
      found[table] = result.rows[0]!.print;
    }
    return found;
  });

const all = operations();
/** The cell of the matrix, which knows nothing of the routes. */
const cellOf = ({ route }: Operation): Exclude<ReturnType<typeof permissionOf>, "public"> => {
  const cell = permissionOf(route.id);
  return cell === "public" ? {} : cell;
};
const isOpenTo = (operation: Operation, as: As): boolean =>
  (as === "key" ? cellOf(operation).scope : cellOf(operation).roles) !== undefined;
const open = all.filter(({ route }) => permissionOf(route.id) === "public");
const platform = all.filter((operation) => cellOf(operation).admin !== undefined);
/** Of tenants: neither open nor the platform's own. */
const guarded = all.filter((operation) => !open.includes(operation) && !platform.includes(operation));

/** Operations that make what their path names, or whose paths name what every project has. */
const NAMED: ReadonlySet<string> = new Set([
  "putEventType",
  "putChatWordList",
  "listAnalyticsSegmentPlayers",
]);

describe("access to every operation", function () {
  this.timeout(400_000);
  let api: TestApp;
  let own: Side;
  let second: Side;
  let stranger: Side;
  /** Tokens by role, and keys by the one scope that they have. */
  const tokens = new Map<string, string>();
  const keysWith = new Map<string, string>();
  let wsToken: string;
  let cells = 0;
  let attacked = 0;

  const cell = async (answer: Promise<Answer>, status: number, reason?: string): Promise<void> => {
    says(await answer, status, reason);
    cells += 1;
  };
  /** With the header, since the tenant has two projects. */
  const byUser = (token: string, projectId = own.tenant.projectId) => ({
    token,
    headers: { "X-Project-ID": projectId },
  });
  const by = (as: As) => (as === "key" ? { key: own.tenant.key } : byUser(own.tenant.token));

  before(async () => {
    api = await startApp();
    [own, stranger] = [await aSide(api), await aSide(api)];
    second = await aSecondSide(api, own);
    const { token, projectId, tenantId } = own.tenant;
    for (const role of ROLES) tokens.set(role, (await aMember(api, tenantId, role)).token);
    for (const scope of SCOPES) {
      keysWith.set(scope, await aKey(api, { token, projectId, scopes: [scope] }));
    }
    wsToken = (await aWsToken(api, own.tenant.key, "someone")).token;
  });

  it("is described for the sweeps and in the matrix, every operation of the document and no other", () => {
    const document = openApiDocument(routes);
    const described = Object.values(document.paths ?? {}).flatMap((path) =>
      Object.values(path as Record<string, { operationId?: string }>).map(({ operationId }) => operationId),
    );
    assert.deepEqual(described.toSorted(), Object.keys(PERMISSIONS).toSorted());
    assert.equal(all.length, routes.length);
    assert.deepEqual(forgottenOperations(), []);
  });

  it("is refused 401 without credentials, and with what is none", async () => {
    for (const operation of guarded) {
      const { route } = operation;
      const call = unreachable(operation);
      await cell(send(api, route, call), 401, "CREDENTIALS_MISSING");
      await cell(send(api, route, call, { key: "svc_live_x" }), 401, "API_KEY_INVALID");
      await cell(send(api, route, call, { token: wsToken }), 401, "TOKEN_INVALID");
      await cell(send(api, route, call, { token: own.tenant.key }), 401, "TOKEN_INVALID");
      const both = { key: own.tenant.key, token: own.tenant.token };
      await cell(send(api, route, call, both), 401, "CREDENTIALS_AMBIGUOUS");
      const inQuery = {
        ...call,
        path: `${call.path}?apiKey=${own.tenant.key}&access_token=${own.tenant.token}`,
      };
      await cell(send(api, route, inQuery), 401, "CREDENTIALS_MISSING");
    }
    assert.equal(cells, guarded.length * 6);
  });

  it("is open to everybody where the operation says so", async () => {
    for (const { route, call, success } of open)
      await cell(send(api, route, await call(own, "user")), success);
  });

  it("of the platform is a super-admin's: nothing of a tenant opens it", async () => {
    const { token: admin } = await anAdmin(api);
    for (const operation of platform) {
      const { route, call, success } = operation;
      const lost = unreachable(operation);
      await cell(send(api, route, lost), 401, "CREDENTIALS_MISSING");
      await cell(send(api, route, lost, { key: own.tenant.key }), 401, "CREDENTIALS_MISSING");
      for (const role of ROLES)
        await cell(send(api, route, lost, { token: tokens.get(role)! }), 401, "TOKEN_INVALID");
      await cell(send(api, route, lost, { token: wsToken }), 401, "TOKEN_INVALID");
      const isForMachines = cellOf(operation).admin === "blog:sync";
      const machine = await aPlatformToken(api, admin);
      if (isForMachines) await cell(send(api, route, await call(own, "user"), { token: machine }), success);
      else await cell(send(api, route, lost, { token: machine }), 403, "INSUFFICIENT_SCOPE");
      // Some end the session that calls them.
      const { token } = await anAdmin(api);
      const request = await call(own, "user");
      await cell(send(api, route, request, { token: request.token ?? token }), success);
    }
    for (const operation of guarded)
      await cell(send(api, operation.route, unreachable(operation), { token: admin }), 401, "TOKEN_INVALID");
  });

  it("is the scope's: a key with it alone passes, a key with all others does not", async () => {
    const keysWithout = new Map<string, string>();
    const keyWithout = async (scopes: readonly string[]): Promise<string> => {
      const name = scopes.join(" ");
      const { token, projectId } = own.tenant;
      const others = SCOPES.filter((other) => !scopes.includes(other));
      if (!keysWithout.has(name))
        keysWithout.set(name, await aKey(api, { token, projectId, scopes: others }));
      return keysWithout.get(name)!;
    };
    for (const operation of guarded) {
      const { route, call, success } = operation;
      const scopes = scopesOf(cellOf(operation));
      if (scopes.length === 0) {
        await cell(send(api, route, unreachable(operation), by("key")), 403, "INSUFFICIENT_SCOPE");
        continue;
      }
      const key = await keyWithout(scopes);
      await cell(send(api, route, unreachable(operation), { key }), 403, "INSUFFICIENT_SCOPE");
      await cell(send(api, route, await call(own, "key"), { key: keysWith.get(scopes[0]!)! }), success);
    }
  });

  it("is the roles' that the operation names", async () => {
    const before = cells;
    for (const operation of guarded) {
      const { route, call, success } = operation;
      const { roles = [] } = cellOf(operation);
      for (const role of ROLES) {
        const caller = byUser(tokens.get(role)!);
        if (roles.includes(role)) await cell(send(api, route, await call(own, "user"), caller), success);
        else await cell(send(api, route, unreachable(operation), caller), 403, "INSUFFICIENT_ROLE");
      }
    }
    assert.equal(cells - before, guarded.length * ROLES.length);
  });

  type Attack = { send: () => Promise<Answer>; status: number; reason?: string };
  const attack = (status: number, reason: string | undefined, run: Attack["send"]): Attack => ({
    send: run,
    status,
    ...(reason === undefined ? {} : { reason }),
  });

  /** What belongs to `other`, in the path. */
  const inPath = async ({ route, call }: Operation, other: Side, as: As): Promise<Attack[]> => {
    // What is the tenant's, such as its people, is there whatever the project.
    const isOfTenant = route.project === "none" || route.path.includes("{projectId}");
    const isAllowed = as === "user" && other === second && isOfTenant;
    // A provider is nobody's, and names of what is put under them are anybody's.
    const isAnybodys = !/\{(?!provider\})/.test(route.path) || NAMED.has(route.id);
    if (isAnybodys || isAllowed) return [];
    const { token: _theirs, ...request } = await call(other, as);
    return [attack(404, undefined, () => send(api, route, request, by(as)))];
  };

  /** The project of `other`, in header and query. */
  const inHeader = async ({ route, call, success }: Operation, other: Side, as: As): Promise<Attack[]> => {
    const { projectId } = other.tenant;
    const credentials = as === "key" ? { key: own.tenant.key } : { token: own.tenant.token };
    const request = await call(own, as);
    const named = () => send(api, route, request, { ...credentials, headers: { "X-Project-ID": projectId } });
    // Where the operation has no project, or the path names it, the header says nothing to a user.
    const isNamed = route.project === "path" && as === "user";
    if (route.project === "none" || isNamed) return [attack(success, undefined, named)];
    if (as === "user" && other === second) return [];
    const refused = (run: Attack["send"]): Attack =>
      as === "key" ? attack(403, "PROJECT_MISMATCH", run) : attack(404, undefined, run);
    if (route.project !== "caller") return [refused(named)];
    const more = request.path.includes("?") ? "&" : "?";
    const asked = { ...request, path: `${request.path}${more}projectId=${projectId}` };
    return [refused(named), refused(() => send(api, route, asked, credentials))];
  };

  const elsewhere = async ({ route, foreign }: Operation, other: Side, as: As): Promise<Attack[]> =>
    ((await foreign?.(own, other, as)) ?? []).map(({ status = 404, reason, ...request }) =>
      attack(status, reason, () => send(api, route, request, by(as))),
    );

  /** Everything that a caller of `own` may try with what belongs to `other`. */
  const attacksOn = async (other: Side, as: As): Promise<Attack[]> => {
    const attacks: Attack[] = [];
    for (const operation of guarded.filter((one) => isOpenTo(one, as))) {
      for (const kind of [inPath, inHeader, elsewhere]) attacks.push(...(await kind(operation, other, as)));
    }
    return attacks;
  };

  for (const as of ["key", "user"] as const) {
    for (const whose of ["tenant", "project of the tenant"] as const) {
      it(`ends at the project: nothing of another ${whose} is there for a ${as}`, async () => {
        const other = whose === "tenant" ? stranger : second;
        // The limit of people is smaller than these sweeps and what they need are.
        const rest = () => api.app.limiter.reset(LIMITS.user, own.tenant.userId);
        await rest();
        const attacks = await attacksOn(other, as);
        await rest();
        const before = await fingerprint(api, other);
        for (const [n, { send: run, status, reason }] of attacks.entries()) {
          if (n % 300 === 299) await rest();
          await cell(run(), status, reason);
        }
        attacked += attacks.length;
        assert.deepEqual(await fingerprint(api, other), before, "the other side was changed");
        assert.ok(attacks.length >= (as === "key" ? 50 : 25), `only ${attacks.length} attacks`);
      });
    }
  }

  it("was looked at in every cell of the table", () => {
    const keyed = guarded.filter((operation) => isOpenTo(operation, "key")).length;
    // No or bad credentials, scopes, roles, the super-admin's token; of the platform: 10 kinds of caller.
    const tenants = guarded.length * 6 + keyed * 2 + (guarded.length - keyed) + guarded.length * ROLES.length;
    assert.equal(cells, tenants + guarded.length + platform.length * 10 + open.length + attacked);
    assert.ok(cells > 1_700, `${cells} cells`);
  });
});
