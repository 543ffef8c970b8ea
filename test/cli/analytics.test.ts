import assert from "node:assert/strict";
import { join } from "node:path";
import { sql } from "kysely";
import { openEmbeddedDatabase } from "../../src/platform/database.ts";
import { newId } from "../../src/domain/kernel/ids.ts";
import { type CommandResult, laurel } from "../support/processes/command.ts";
import { openDomain } from "../support/domain/domain.ts";
import { migratedDataDir } from "../support/processes/process.ts";

describe("laurel analytics", () => {
  let dir: Awaited<ReturnType<typeof migratedDataDir>>;
  let projectId: string;
  before(async () => {
    dir = await migratedDataDir();
    const database = await openEmbeddedDatabase(join(dir.path, "pglite"));
    const domain = openDomain(database);
    projectId = await domain.addProject();
    await domain.addPlayer(projectId, "ada");
    // Of a time after which nobody commits events of it any more.
    const old = newId().replace(/^.{13}/, "01890000-0000");
    await domain.sql`
      insert into tracked_events
        (project_id, id, external_user_id, event_type, properties, occurred_at, received_at)
      values (${projectId}::uuid, ${old}::uuid, 'ada', 'match.won', '{}', '2026-01-05T10:00:00Z',
        now())`;
    await database.close();
  });
  after(() => dir.remove());

  const run = (...args: string[]): Promise<CommandResult> =>
    laurel(["analytics", ...args], { DATA_DIR: dir.path, DEMO: "off", LOG_LEVEL: "error" });

  const inDatabase = async (statement: ReturnType<typeof sql>): Promise<void> => {
    const database = await openEmbeddedDatabase(join(dir.path, "pglite"));
    await openDomain(database).transact(({ db }) => statement.execute(db));
    await database.close();
  };

  it("builds rollups, holds them against events, and answers 1 where they differ", async () => {
    const built = await run("rebuild", "--project", projectId);
    assert.deepEqual([built.code, built.text.trim()], [0, `project ${projectId}: rebuilt`]);
    const good = await run("verify");
    assert.equal(good.code, 0, good.text);
    assert.match(good.text, /: 1 events in 2 documents, 0 differences/);
    await inDatabase(sql`update tracked_events set occurred_at = '2026-01-05T11:00:00Z'`);
    const bad = await run("verify", "--project", projectId);
    assert.equal(bad.code, 1, bad.text);
    assert.match(bad.text, /: match\.won of 2026-01-05: times/);
    assert.match(bad.text, /: activity of 2026-01-05: quarters of an hour/);
    assert.match(bad.text, /: activity: first events of players/);
    assert.equal((await run("rebuild")).code, 0);
    assert.equal((await run("verify")).code, 0);
  });

  it("refuses a project that is no UUID, and one that is not there", async () => {
    const refused = await run("verify", "--project", "mine");
    assert.deepEqual([refused.code, /UUID/.test(refused.text)], [2, true]);
    const missing = await run("rebuild", "--project", "01890000-0000-7000-8000-000000000000");
    assert.equal(missing.code, 1);
    assert.match(missing.text, /There is no project/);
  });
});
