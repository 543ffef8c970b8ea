import assert from "node:assert/strict";
import { sql } from "kysely";
import type { Read } from "../../src/domain/kernel/read.ts";
import { createTransact, NO_WAKE_UPS } from "../../src/domain/kernel/transact.ts";
import type { RowScope, Transact } from "../../src/domain/kernel/work.ts";
import { openPostgres } from "../../src/platform/database.ts";
import { openDomain } from "../support/domain/domain.ts";
import { startServices } from "../support/processes/services.ts";
import { madeOnce } from "../support/made.ts";

const NAMES = { text: "select external_user_id as name from players order by 1", values: [] };
const WHO = {
  text: `select current_user = session_user as "isOwn",
    coalesce(current_setting('laurel.project_ids', true), '') as projects`,
  values: [],
};

describe("a read in one message, within a scope", () => {
  let ada: string;
  let bob: string;
  const services = madeOnce(() => startServices(""));
  const database = madeOnce(() => openPostgres(services.databaseUrl, 2));
  before(async () => {
    const domain = openDomain(database);
    [ada, bob] = [await domain.addProject(), await domain.addProject()];
    await domain.addPlayer(ada, "ada");
    await domain.addPlayer(bob, "bob");
  });
  after(async () => {
    await database?.close();
    await services?.remove();
  });

  const scopeOf = (...projectIds: string[]): RowScope => ({ role: "web", tenantId: "", projectIds });
  const readIn = (scope?: RowScope): Read => database.readAs!(scope);
  const namesIn = async (scope?: RowScope): Promise<string> =>
    (await readIn(scope)<{ name: string }>(NAMES)).map(({ name }) => name).join(" ");
  const transactIn = (scope: RowScope): Transact => {
    const onError = (error: unknown): never => assert.fail(String(error));
    const parts = { em: database.em, clock: () => new Date(), wakeUps: NO_WAKE_UPS, onError };
    return createTransact(parts, scope);
  };

  it("sees the rows of its projects, and no others that a statement forgets to leave out", async () => {
    assert.equal(await namesIn(scopeOf(ada)), "ada");
    assert.equal(await namesIn(scopeOf(bob)), "bob");
    assert.equal(await namesIn(scopeOf(ada, bob)), "ada bob");
    assert.equal(await namesIn(scopeOf()), "");
    assert.equal(await namesIn(), "ada bob");
    await assert.rejects(namesIn({ role: "accounts" }), /permission denied/);
  });

  it("leaves its role and its projects to nobody, not even when it fails", async () => {
    const isFree = async () => {
      // As many at once as there are connections.
      const found = await Promise.all([1, 2].map(() => readIn()<{ isOwn: boolean; projects: string }>(WHO)));
      for (const [row] of found) assert.deepEqual(row, { isOwn: true, projects: "" });
    };
    await namesIn(scopeOf(ada));
    await isFree();
    const failing = { text: "select 1 / $1::int as n", values: [0] };
    for (let n = 0; n < 5; n++) await assert.rejects(readIn(scopeOf(ada))(failing), /division by zero/);
    await assert.rejects(readIn(scopeOf(ada))({ text: "select nonsense", values: [] }), /nonsense/);
    await assert.rejects(readIn(scopeOf(ada))({ text: "select nonsense", values: [] }), /nonsense/);
    await isFree();
    assert.equal(await namesIn(scopeOf(bob)), "bob");
  });

  it("keeps to its scope among reads and transactions of others on the same connections", async () => {
    const expected = new Map([
      [ada, "ada"],
      [bob, "bob"],
    ]);
    const mixed = Array.from({ length: 200 }, async (_, n) => {
      const projectId = n % 3 === 0 ? bob : ada;
      if (n % 4 !== 0) return assert.equal(await namesIn(scopeOf(projectId)), expected.get(projectId));
      const rows = await transactIn(scopeOf(projectId))(async ({ db }) =>
        sql<{ name: string }>`select external_user_id as name from players`.execute(db),
      );
      return assert.deepEqual(rows.rows, [{ name: expected.get(projectId) }]);
    });
    await Promise.all(mixed);
  });
});
