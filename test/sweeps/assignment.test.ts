import assert from "node:assert/strict";
import { sql } from "kysely";
import { routes } from "../../src/http/routes.ts";
import { fieldsOf } from "../../src/http/validate.ts";
import { assertError } from "../support/http/assert-error.ts";
import { startApp, type TestApp } from "../support/app/app.ts";
import { anAdmin } from "../support/app/admin.ts";
import { credentialsFor, forgetLimits, operations, send } from "../support/operations/operations.ts";
import { aSide, type Side } from "../support/app/sides.ts";

/** Values that are found nowhere unless a request put them there. */
const ID = "deadbeef-0bad-7000-8000-5e7700000000";
const NUMBER = 918_273_645;
const TIME = "2003-02-01T04:05:06.789Z";
const TEXT = "assigned-by-a-caller";

/** Fields that the server alone sets, in any record. */
const OWNED: Record<string, unknown> = {
  ...Object.fromEntries(
    ["id", "tenantId", "projectId", "userId", "eventId", "ownerProjectId", "actsOnProjectId"].map((name) => [
      name,
      ID,
    ]),
  ),
  ...Object.fromEntries(
    ["sandboxOf", "sandboxProjectId", "periodId", "ruleId", "keyId"].map((name) => [name, ID]),
  ),
  ...Object.fromEntries(["xp", "level", "seq", "ledgerSeq", "configVersion"].map((name) => [name, NUMBER])),
  ...Object.fromEntries(
    ["version", "draftVersion", "publishedVersion", "attempts"].map((name) => [name, NUMBER]),
  ),
  ...Object.fromEntries(["createdAt", "updatedAt", "deletedAt", "lastUsedAt"].map((name) => [name, TIME])),
  ...Object.fromEntries(["lastSeenAt", "receivedAt", "processedAt", "usedAt"].map((name) => [name, TIME])),
  ...Object.fromEntries(
    ["prefix", "key_hash", "secretHash", "passwordHash", "createdBy"].map((name) => [name, TEXT]),
  ),
  ...Object.fromEntries(
    ["published", "pauseReason", "balanceAfter", "cause", "source"].map((name) => [name, TEXT]),
  ),
  status: "BANNED",
  role: "SUPERADMIN",
  approvalStatus: "SUSPENDED",
  plan: "STARTER",
  emailVerified: true,
  isTest: true,
};

const snake = (name: string): string => name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

describe("fields that the server owns", () => {
  let api: TestApp;
  let side: Side;
  let earlier = new Set<string>();
  before(async () => {
    api = await startApp();
    side = await aSide(api);
    earlier = new Set(await traces());
  });

  const tables = (): Promise<string[]> =>
    api.app.transact(async ({ db }) => {
      const found = await sql<{ name: string }>`
        select table_name as name from information_schema.tables
        where table_schema = 'public' and table_type = 'BASE TABLE'
          and table_name not in (select relname from pg_class where relispartition)`.execute(db);
      return found.rows.map(({ name }) => name);
    });

  /** Rows, of any table, that hold one of the values. */
  const traces = async (): Promise<string[]> => {
    const names = await tables();
    const pattern = [ID, String(NUMBER), TIME.slice(0, 10), TEXT, "SUPERADMIN", "STARTER"].join("|");
    return api.app.transact(async ({ db }) => {
      const rows: string[] = [];
      for (const name of names) {
        const found = await sql<{ row: string }>`
          select to_jsonb(t)::text as row from ${sql.ref(name)} t
          where to_jsonb(t)::text ~ ${pattern}`.execute(db);
        rows.push(...found.rows.map(({ row }) => `${name}: ${row}`));
      }
      return rows;
    });
  };

  /** What other tests of this process have left is not of these. */
  const newTraces = async (): Promise<string[]> => (await traces()).filter((row) => !earlier.has(row));

  for (const spelling of ["camelCase", "snake_case"] as const) {
    it(`are never taken from a body, written in ${spelling}`, async () => {
      const taken: string[] = [];
      for (const { route, call, success } of operations().filter((one) => one.route.body !== undefined)) {
        const as = route.access !== "public" && route.access.scope !== undefined ? "key" : "user";
        const { body, ...rest } = await call(side, as);
        const own = new Set([...fieldsOf(route.body), ...Object.keys(body as object)]);
        const fields = Object.entries(OWNED)
          .filter(([name]) => !own.has(name))
          .map(([name, value]) => [spelling === "camelCase" ? name : snake(name), value]);
        const request = { ...rest, body: { ...(Object.fromEntries(fields) as object), ...(body as object) } };
        const { adminId, token } = await anAdmin(api);
        await forgetLimits(api, side, adminId);
        const answer = await send(api, route, request, credentialsFor(route, side, token));
        assert.ok([success, 400].includes(answer.status), `${route.id}: ${JSON.stringify(answer.body)}`);
        if (answer.status === success && !route.takesForm) taken.push(route.id);
        const shown = JSON.stringify(answer.status === success ? answer.body : {});
        for (const value of [ID, TIME, TEXT, String(NUMBER)])
          assert.ok(!shown.includes(value), `${route.id} shows ${value}`);
      }
      // The answer of validateRule says what is wrong with a document, whatever it is.
      const ignoring = ["validateRule", ...routes.filter((one) => one.namesIgnored).map(({ id }) => id)];
      assert.deepEqual(taken.toSorted(), ignoring.toSorted(), "all others refuse them");
      assert.deepEqual(await newTraces(), []);
    });
  }

  it("stay as they were in the records that such bodies were sent to", async () => {
    const { key, token, projectId } = side.tenant;
    const player = await side.player();
    const before = (await api.get(`/api/v1/players/${player}`, { key })).body;
    const after = await api.patch(`/api/v1/players/${player}`, { ...OWNED, displayName: "New" }, { key });
    const { updatedAt: _, ...same } = { ...before, displayName: "New", seq: before.seq + 1 };
    const { updatedAt: __, warnings, ...shown } = after.body;
    assert.match(warnings[0], /not a field of a player, and ignored/);
    assert.deepEqual(shown, same);

    const project = await api.patch(`/api/v1/projects/${projectId}`, OWNED, { token });
    assertError(project, 400);
    assertError(await api.post("/api/v1/auth/register", { ...OWNED, name: "Eve Smith" }), 400);

    await api.patch(`/api/v1/players/${player}`, { metadata: { note: ID } }, { key });
    // One in the row, one in the outbox: so the search of the tests above would have found them.
    assert.equal((await newTraces()).length, 2);
  });
});
